package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"sluice/internal/control/bandwidth"
)

// steady is a trace in which each guest receives at the rate f, in bit/s.
func steady(sc *scenario, f func(guest int, t time.Duration) float64) *trace {
	tr := &trace{begin: time.Unix(1e9, 0)}
	bits := make([]float64, len(sc.guests))
	for t := time.Duration(0); t <= sc.length; t += sinkStep {
		tr.samples = append(tr.samples, sample{tr.begin.Add(t), append([]float64(nil), bits...)})
		for i := range bits {
			bits[i] += f(i, t) * sinkStep.Seconds()
		}
	}
	return tr
}

func near(a, b float64) bool { return math.Abs(a-b) < .2 }

func TestScoreOfGuaranteeThatIsKeptFromHalfOn(t *testing.T) {
	sc := oneAgainstFive("a", .25)
	r := score(&sc, steady(&sc, func(guest int, at time.Duration) float64 {
		if early := at < sc.length/2; guest == 0 && early {
			return .1 * linkBits
		} else if guest == 0 {
			return .25 * linkBits
		}
		return .7 * linkBits
	}))
	if !near(r.Satisfied, 50) || !near(r.Short, .15*linkBits/1e6*sc.length.Seconds()/2) || !near(r.Used, 87.5) {
		t.Errorf("%+v, want half of the windows, 60 Mbit short, 87.5 %% used", r)
	}
}

func TestScoreOfLateRecovery(t *testing.T) {
	sc := scenario{length: 4 * s, guests: []guest{{guarantee: .5, flows: 1, demand: between(2*s, 4*s)}, bestEffort(1)}}
	r := score(&sc, steady(&sc, func(guest int, at time.Duration) float64 {
		if guest == 0 && at >= 2*s+300*time.Millisecond {
			return .5 * linkBits
		}
		return 0
	}))
	// A window may start while 5 % of it are still missing.
	if r.Recovery < .28 || r.Recovery > .31 {
		t.Errorf("recovered after %v s, want .3", r.Recovery)
	}
	if !near(r.Satisfied, 80) {
		t.Errorf("%v %% satisfied, want 8 of 10 windows", r.Satisfied)
	}
}

func TestEntitledByClass(t *testing.T) {
	for _, sc := range scenarios() {
		if sc.name != "over-committed" {
			continue
		}
		out := make([]float64, 3)
		sc.entitled(0, out)
		if out[0] != .5*linkBits || out[1] != .5*linkBits || out[2] != 0 {
			t.Errorf("all want theirs: %v", out)
		}
		sc.entitled(7*s, out)
		if out[0] != .5*linkBits || out[1] != 0 || out[2] != .5*linkBits {
			t.Errorf("the second pauses: %v", out)
		}
	}
}

func TestTimeToFind(t *testing.T) {
	begin := time.Unix(1e9, 0)
	seen := []found{{begin.Add(-500 * time.Millisecond), linkBits}, {begin.Add(s), .95 * linkBits}, {begin.Add(9 * s), .9 * linkBits}}
	for _, c := range []struct {
		sc   scenario
		want float64
	}{
		{scenario{}, -1},
		{scenario{cold: .05}, 2}, // it counts from the start of the flows, a second before the measurement
		{scenario{cold: .2}, -1},
		{scenario{fall: 6 * s, falls: .1}, 3},
		{scenario{cold: .05, fall: 6 * s, falls: .1}, 3},
	} {
		if got := timeToFind(&c.sc, begin, seen); !near(got, c.want) {
			t.Errorf("%+v: found after %v s, want %v", c.sc, got, c.want)
		}
	}
}

func TestPatterns(t *testing.T) {
	for pattern, want := range map[string][]string{
		"a50": {"a50"}, "cold-5-50*": {"cold-5-50-bounded", "cold-5-50"}, "attack-?": {"attack-2", "attack-3", "attack-4"},
	} {
		if got, err := expand([]string{pattern}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s means %v, %v; want %v", pattern, got, err, want)
		}
	}
	for _, pattern := range []string{"cold", "b-*", "[a"} {
		if got, err := expand([]string{"a50", pattern}); err == nil {
			t.Errorf("%s means %v, want an error", pattern, got)
		}
	}
}

// TestScenariosAreFit checks the assumptions that score makes about scenarios.
func TestScenariosAreFit(t *testing.T) {
	for _, sc := range scenarios() {
		promised, classes := 0.0, len(sc.priorities())
		for i := range sc.guests {
			g := &sc.guests[i]
			promised += g.guarantee
			if len(g.demand) == 0 || g.demand[0].from != 0 || g.flows == 0 {
				t.Errorf("%s: guest %d wants nothing from the beginning on", sc.name, i+1)
			}
			for _, p := range g.demand {
				if p.from%window != 0 {
					t.Errorf("%s: guest %d changes at %v, within a window", sc.name, i+1, p.from)
				}
			}
		}
		if promised > 1 && classes == 1 {
			t.Errorf("%s promises %.2f of the link", sc.name, promised)
		}
	}
}

// TestInformed: the allocator that is told everything divides the link as the guests ask for it, and notices a change a period later.
func TestInformed(t *testing.T) {
	const period = 100 * time.Millisecond
	sc := scenario{guests: []guest{
		{guarantee: .3, demand: []phase{{always, 0}, {s, unlimited}}},
		{demand: want(.1 * linkBits)},
		{demand: want(unlimited)},
		{demand: want(unlimited), to: 1},
	}}
	a, err := newAllocator(&sc, informed, period)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	a.(*oracle).began = began
	out := make([]bandwidth.Allowance, len(sc.guests))
	for at, limits := range map[time.Duration][]float64{
		-s: {30, 10, 89.5}, s + period/2: {30, 10, 89.5}, s + period: {30 + 59.5/2, 10, 59.5 / 2},
	} {
		a.Allocate(began.Add(at), bandwidth.Link{}, nil, out)
		for i, limit := range limits {
			if got := out[i].Bits / 1e6; math.Abs(got-limit) > 1e-3 {
				t.Errorf("at %v guest %d may send %.2f Mbit/s, want %.2f", at, i+1, got, limit)
			}
		}
		if out[3] != bandwidth.Unlimited {
			t.Errorf("one that sends to another guest may send %v", out[3])
		}
	}
}
