package fluid

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// sent plays an attacker that has a limit, and returns what it would send in the middle of each period.
func sent(periods int, limit func(period int) float64, steps ...step) (out []float64) {
	const period = 100 * time.Millisecond
	tick, last := 0, 0.0
	m := &mind{
		attacker: attacker{Steps: steps}, period: period, r: rand.New(rand.NewPCG(1, 1)),
		get: func() (float64, float64) { return limit(tick) * gbit, last * gbit },
	}
	for t := time.Duration(0); t < time.Duration(periods)*period; t += Step {
		tick = int(t / period)
		bits := m.demand(t)
		last = min(bits/gbit, limit(tick))
		if t%period == period/2 {
			out = append(out, math.Round(bits/gbit*1e6)/1e6)
		}
	}
	return out
}

func TestAttackersFollowTheirProgram(t *testing.T) {
	inf := math.Inf(1)
	const (
		high = 20.
		low  = 10.
	)
	steady := func(int) float64 { return high }
	falls := func(period int) float64 {
		if period >= 2 {
			return low
		}
		return high
	}
	for _, c := range []struct {
		limit func(int) float64
		steps []step
		want  []float64
	}{
		{steady, []step{{For: 2, Send: sendAll}, {For: 1, Send: sendNone}}, []float64{inf, inf, 0, inf, inf, 0}},
		{steady, []step{{For: 1, Send: sendRate, Level: .25}, {For: 2, Send: sendLimit, Level: .5}}, []float64{10, 10, 10, 10}},
		{falls, []step{{For: 5, Send: sendLimit, Level: .8}}, []float64{16, 16, 8, 8}},
		{falls, []step{{For: 2, Send: sendAll}, {For: 2, Send: sendGot, Level: .9}}, []float64{inf, inf, 18, 18, inf, inf, 9, 9}},
		{steady, []step{{For: 3, Send: sendEbb, Level: .5}}, []float64{20, 10, 5, 20}},
		{falls, []step{{For: 9, Send: sendDefy, Level: .5}}, []float64{10, 10, inf, inf}},
		{falls, []step{{For: 9, Send: sendYield, Level: .5}}, []float64{inf, inf, 5, 5}},
	} {
		if got := sent(len(c.want), c.limit, c.steps...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v sends %v, want %v", c.steps, got, c.want)
		}
	}
	for _, bits := range sent(50, steady, step{For: 7, Send: sendRandom, Level: .7}) {
		if bits < .7*high || bits > high {
			t.Errorf("sends %v at random, want between 14 and 20", bits)
		}
	}
	if a, b := sent(2, steady, step{For: 9, Send: sendLimit, Level: .5, Jitter: .1}), high/2; a[0] == a[1] || math.Abs(a[1]-b) > b {
		t.Errorf("sends %v with jitter, want about %v", a, b)
	}
}

// example is a program with little in it: without control the honest sender gets a fifth of the link.
func example() *program {
	return &program{
		Period: 100, Carries: .95, Seed: 1, Honest: []honest{{Flows: 1, Guarantee: 20}, {Flows: 1}},
		Attackers: []attacker{{Flows: 3, Steps: []step{{For: 1, Send: sendAll}}}},
	}
}

func TestVerdict(t *testing.T) {
	for name, want := range map[string]verdict{
		// Then two share the link: 19 of 20 is just enough.
		"none":   {satisfied: 0, short: 62, used: 100, healed: 0},
		informed: {satisfied: 100, short: 0, used: 100, healed: 0},
	} {
		got := example().play(name, true)
		got.short = math.Round(got.short)
		got.used = math.Round(got.used*10) / 10
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	p := example()
	p.Honest[0].Wants, p.Honest[1].Flows = 18, 9 // after the attackers' leave it has a tenth
	if got := p.play("none", true); got.healed != never {
		t.Errorf("healed in %v, although nobody keeps the guarantee", got.healed)
	}
	p.Honest[0].OnOff = 10000
	if got := p.play("none", true); got.satisfied != 0 || got.healed != 0 {
		t.Errorf("%+v, want nothing satisfied while it asks, and healed while it does not", got)
	}
}

// TestGoals: each goal is missed by the program that does just that harm.
func TestGoals(t *testing.T) {
	well := verdict{satisfied: 100, used: 99, healed: 200 * time.Millisecond}
	for i, change := range []func(o *outcome){
		func(o *outcome) { o.satisfied = 96.9 },
		func(o *outcome) { o.used = 89 },
		func(o *outcome) { o.healed = 5200 * time.Millisecond },
	} {
		o := &outcome{program: example(), verdict: well, informed: well, honest: well}
		for k := range goals {
			if harm := goals[k].harm(o); harm > 0 {
				t.Errorf("%s is missed by %v without harm", goals[k].name, harm)
			}
		}
		change(o)
		for k := range goals {
			if harm := goals[k].harm(o); (harm > 0) != (i == k) {
				t.Errorf("%s is missed by %v in case %d", goals[k].name, harm, i)
			}
		}
	}
	o := &outcome{program: example(), verdict: well, informed: well, honest: well}
	o.Attackers[0].Guarantee, o.used = 7.6, 75 // a fifth of the link may be wasted
	if harm := goals[1].harm(o); harm > 0 {
		t.Errorf("used is missed by %v, although attackers' guarantees explain it", harm)
	}
}

// TestSearch: a search makes sound programs, which change nothing of those that they come from, and finds harm.
func TestSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		p := draw(r, rapid.Bool().Draw(t, "liars"))
		liars := p.theirs() > 0
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			if err := p.check(); err != nil {
				t.Fatalf("%v: %s", err, p.line())
			}
			if promised := p.theirs() + p.Honest[0].Guarantee; promised > .95*speed/gbit {
				t.Fatalf("%v of the link is promised", promised)
			}
			before := p.line()
			q := p.changed(r)
			if after := p.line(); after != before {
				t.Fatalf("a change has changed %s to %s", before, after)
			}
			p = q
		}
		if now := p.theirs() > 0; now && !liars {
			t.Fatal("an attacker has got a guarantee")
		}
	})
	p := example()
	p.Attackers[0].Steps[0] = step{For: 1, Send: sendNone}
	least := func(o *outcome) float64 { return -o.satisfied }
	p.Honest[0].Wants = 5
	if o := climb(try(p, "none"), &goal{harm: least}, 200, rand.New(rand.NewPCG(1, 1)), "none"); o.satisfied > 50 {
		t.Errorf("found nothing worse than %.1f %% satisfied without control", o.satisfied)
	}
}
