package workload

import (
	"math"
	"testing"
	"time"

	"sluice/internal/research/sim"
)

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

// TestAgain: with its own seed a source has the same history again, with another seed another one.
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
