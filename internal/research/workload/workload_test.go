package workload

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sluice/internal/research/sim"
)

func everything() []Named {
	return slices.Concat(Ten(), Adversaries(), Rhythms(), HeldOut())
}

// TestTimeRunsEitherWay reads every workload forward, then at random moments: the same
// seed gives the same load whatever was asked before.
func TestTimeRunsEitherWay(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range everything() {
		a, b := n.Make(4), n.Make(4)
		if len(a.VMs) != vms || a.VFs < 1 || a.VFs >= vms || a.Name != n.Name || a.Text != n.Text {
			t.Errorf("%s: %d VMs, %d VFs, named %s: %s", n.Name, len(a.VMs), a.VFs, a.Name, a.Text)
		}
		for i := range a.VMs {
			seen := map[time.Duration]float64{}
			for s := range 600 {
				d := time.Duration(s) * 2 * time.Second
				seen[d] = a.VMs[i].PPS.Level(d)
				if x := seen[d]; !(x >= 0) || math.IsInf(x, 0) {
					t.Fatalf("%s %s at %s: %v packets/s", n.Name, a.VMs[i].Name, d, x)
				}
			}
			for range 10 {
				d := time.Duration(r.IntN(600)) * 2 * time.Second
				if got := b.VMs[i].PPS.Level(d); got != seen[d] {
					t.Fatalf("%s %s at %s: %v forward, %v at random", n.Name, a.VMs[i].Name, d, seen[d], got)
				}
			}
		}
	}
}

// TestSeedsDiffer: another seed is another history, where the workload has any chance in it.
func TestSeedsDiffer(t *testing.T) {
	for _, n := range everything() {
		if n.Name == "constant" || n.Name == "flips" {
			continue
		}
		a, b, same := n.Make(1), n.Make(2), true
		for i := range a.VMs {
			for s := range 100 {
				d := time.Duration(s) * 12 * time.Second
				same = same && a.VMs[i].PPS.Level(d) == b.VMs[i].PPS.Level(d)
			}
		}
		if same {
			t.Errorf("%s: seeds 1 and 2 give the same load", n.Name)
		}
	}
}

func TestShapes(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		name  string
		shape Shape
		at    time.Duration
		want  float64
	}{
		{"duty on", Duty{High: 5, Low: 1, On: 2 * s, Off: 3 * s}, 1 * s, 5},
		{"duty off", Duty{High: 5, Low: 1, On: 2 * s, Off: 3 * s}, 2 * s, 1},
		{"duty again", Duty{High: 5, Low: 1, On: 2 * s, Off: 3 * s}, 5 * s, 5},
		{"duty moved", Duty{High: 5, Low: 1, On: 2 * s, Off: 3 * s, Phase: 4 * s}, 0, 1},
		{"wave crest", Wave{Mean: 10, Swing: 0.5, Period: 60 * s, Crest: 10 * s}, 70 * s, 15},
		{"wave trough", Wave{Mean: 10, Swing: 0.5, Period: 60 * s, Crest: 10 * s}, 40 * s, 5},
		{"flash before", Flash{Base: 1, Peak: 9, At: 10 * s, Rise: 4 * s, Hold: 5 * s, Fall: 3 * s}, 9 * s, 1},
		{"flash rising", Flash{Base: 1, Peak: 9, At: 10 * s, Rise: 4 * s, Hold: 5 * s, Fall: 3 * s}, 12 * s, 5},
		{"flash at its peak", Flash{Base: 1, Peak: 9, At: 10 * s, Rise: 4 * s, Hold: 5 * s, Fall: 3 * s}, 18 * s, 9},
		{"flash falling", Flash{Base: 1, Peak: 9, At: 10 * s, Rise: 4 * s, Hold: 5 * s, Fall: 3 * s}, 22 * s, 1 + 8/math.E},
		{"stages", Stages{{From: 5 * s, Shape: Flat(3)}, {From: 9 * s, Shape: Flat(4)}}, 9 * s, 4},
		{"before stages", Stages{{From: 5 * s, Shape: Flat(3)}}, 4 * s, 0},
		{"sum", Sum{Flat(1), Flat(6)}, 0, 7},
	} {
		if got := c.shape.Level(c.at); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestBurstsAreOnAsLongAsTheySay checks the long-run share of time of an on/off source.
func TestBurstsAreOnAsLongAsTheySay(t *testing.T) {
	for name, b := range map[string]*Bursts{
		"exponential": NewBursts(1, 1, 0, Exponential(6*time.Second), Exponential(14*time.Second), 0.3),
		"Pareto":      NewBursts(1, 1, 0, Pareto(2.5, 6*time.Second), Pareto(2.5, 14*time.Second), 0.3),
		"fixed":       NewBursts(1, 1, 0, Uniform(6*time.Second, 6*time.Second), Uniform(14*time.Second, 14*time.Second), 0.3),
		"uniform":     NewBursts(1, 1, 0, Uniform(2*time.Second, 10*time.Second), Uniform(8*time.Second, 20*time.Second), 0.3),
	} {
		on := 0.0
		const n = 200000
		for s := range n {
			on += b.Level(time.Duration(s) * time.Second)
		}
		if share := on / n; share < 0.28 || share > 0.32 {
			t.Errorf("%s: on %.3f of the time, want 0.3", name, share)
		}
	}
}

// TestSensorLagsAndShakes: one sample late, right on average, as noisy as asked.
func TestSensorLagsAndShakes(t *testing.T) {
	s := &Sensor{Noise: 0.01, Seed: 3}
	vm := &sim.VM{ID: "a", NICs: []*sim.NIC{{}}}
	var sum, squares float64
	const n = 20000
	for i := range n {
		seen, _, known := s.Sense(vm, float64(1+i%2), 0)
		if !known {
			t.Fatal("not known")
		}
		was := float64(1 + (i+1)%2) // the sample before
		if i == 0 {
			was = 1
		}
		d := seen/was - 1
		sum += d
		squares += d * d
	}
	if mean, dev := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 3e-4 || dev < 0.0097 || dev > 0.0103 {
		t.Errorf("mean error %v, deviation %v; want 0 and 0.01", mean, dev)
	}
}

// TestInstallLetsVMsComeAndGo follows arrivals and departures in a world.
func TestInstallLetsVMsComeAndGo(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	e := &sim.Engine{World: &sim.World{Now: now}, Sample: time.Second}
	w := &Workload{VMs: []VM{
		{Name: "stays", PPS: Flat(10), CPU: Flat(0.5), Packet: 100},
		{Name: "comes", PPS: Flat(1), From: 10 * time.Second},
		{Name: "goes", PPS: Flat(1), From: 5 * time.Second, Until: 12 * time.Second},
	}}
	w.Install(e, "br0")
	for _, c := range []struct {
		at   int
		want string
	}{{1, "stays "}, {6, "stays goes "}, {11, "stays comes goes "}, {13, "stays comes "}} {
		if err := e.Run(t.Context(), now.Add(time.Duration(c.at)*time.Second)); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, v := range e.World.VMs() {
			got += v.Name + " "
		}
		if got != c.want {
			t.Errorf("after %d s: %s, want %s", c.at, got, c.want)
		}
	}
	if pps, bytes, cpus := e.World.VMs()[0].Load.At(now); pps != 10 || bytes != 1000 || cpus != 0.5 {
		t.Errorf("load %v packets/s, %v bytes/s, %v CPUs", pps, bytes, cpus)
	}
}

// TestAgain: with its own seed a source has the same history again, with another one another.
func TestAgain(t *testing.T) {
	b := NewBursts(5, 9, 2, Exponential(6*time.Second), Exponential(14*time.Second), 0.3)
	same, other := b.Again(5), b.Again(6)
	differs := false
	for s := range 300 {
		at := time.Duration(s) * time.Second
		if same.Level(at) != b.Level(at) {
			t.Fatalf("at %s: %v again, %v before", at, same.Level(at), b.Level(at))
		}
		x := other.Level(at)
		if x != 9 && x != 2 {
			t.Fatalf("at %s: level %v, want 9 or 2", at, x)
		}
		differs = differs || x != b.Level(at)
	}
	if !differs {
		t.Error("another seed gives the same history")
	}
}
