package placement

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestRunsAreMeasured: levels and lengths of a load that is noisy, sampled and at times unknown.
func TestRunsAreMeasured(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var x runs
	unseen := 0.0
	for s := range 1200 {
		rate := 2000.0
		if s%110 >= 40 && s%110 < 88 { // 48 s in 110
			rate = 90000
		}
		if s%37 == 5 { // as while it is moved
			unseen++
			continue
		}
		x.see(rate*(0.97+0.06*r.Float64()), 1, unseen)
		unseen = 0
	}
	got := x.learned()
	if math.Abs(got.High-48) > 1 || math.Abs(got.Low-62) > 1 || got.Seen != 11 {
		t.Errorf("learned %+v, want bursts of 48 s, 62 s apart, 11 seen", got)
	}
	if math.Abs(x.High-90000) > 2700 || math.Abs(x.Low-2000) > 60 {
		t.Errorf("levels %.0f and %.0f packets/s, want 90000 and 2000", x.High, x.Low)
	}
}

// TestRunsBlackout: a long gap says nothing about lengths.
func TestRunsBlackout(t *testing.T) {
	var x runs
	for s := range 300 {
		x.see([]float64{1000, 9000}[s/30%2], 1, 0)
	}
	seen := x.Len[highState].Seen
	x.see(9000, 1, 500) // for all we know another burst
	for range 10 {
		x.see(9000, 1, 0)
	}
	x.see(1000, 1, 0)
	if got := x.Len[highState].Seen; got != seen {
		t.Errorf("%d bursts seen, want %d: the one after the blackout began nobody knows when", got, seen)
	}
}

// TestRunsOfOneLevel: a load that only drifts or fluctuates has no bursts.
func TestRunsOfOneLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var x runs
	for s := range 7200 {
		x.see((50000+40000*math.Sin(float64(s)/600))*(0.9+0.2*r.Float64()), 1, 0)
	}
	if got := x.learned(); got.Seen > 4 {
		t.Errorf("learned %+v of a load that goes up and down within an hour", got)
	}
}

// TestBenefitIsTheBestDifference compares the recursion on the difference with the plain one on both values, with a choice before
// every mass.
func TestBenefitIsTheBestDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l lengths
		for range rapid.IntRange(0, 12).Draw(t, "seen") {
			l.add(rapid.Float64Range(0.5, 500).Draw(t, "length"))
		}
		age := rapid.Float64Range(0.1, 600).Draw(t, "age")
		gain, cost := rapid.Float64Range(-1e5, 1e5).Draw(t, "gain"), rapid.Float64Range(0, 1e6).Draw(t, "cost")
		after := rapid.Float64Range(0, 1).Draw(t, "after") * cost
		var masses []float64
		for _, x := range l.masses[:l.n] {
			if float64(x) > age {
				masses = append(masses, float64(x))
			}
		}
		// From a moment on, with and without a VF, if the stretch outlasts all masses.
		last := age
		if l.n > 0 {
			last = max(last, float64(l.masses[l.n-1]))
		}
		var values func(from float64, i int) (with, without float64)
		values = func(from float64, i int) (with, without float64) {
			if i == len(masses) {
				return gain*last + after, 0
			}
			chance := 1 / (unlike + float64(len(masses)-i))
			w, o := values(masses[i], i+1)
			with = gain*(masses[i]-from) + chance*after + (1-chance)*max(w, o) // may give it up
			return with, (1 - chance) * max(o, w-cost)                         // may get one
		}
		with, without := values(age, 0)
		if got, want := l.benefit(age, gain, after, cost), with-without; math.Abs(got-want) > 1e-6*(1+math.Abs(want)+cost) {
			t.Errorf("a difference of %v packets, want %v, over %v", got, want, masses)
		}
	})
}

// TestLengthsForget: once as many lengths as are kept have been added, nothing earlier remains.
func TestLengthsForget(t *testing.T) {
	var old, fresh lengths
	for range 100 {
		old.add(500)
	}
	for i := range lengthsKept {
		old.add(float64(10 + i))
		fresh.add(float64(10 + i))
	}
	if old.mean() != fresh.mean() {
		t.Errorf("a mean of %v s, want %v", old.mean(), fresh.mean())
	}
}
