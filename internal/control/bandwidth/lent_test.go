package bandwidth

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/internal/model"
)

// TestSmallLinkCutsWhatIsMissing: a link that is taken for less than the sum of the guarantees cuts these, by class, by no more than what is
// said to be missing.
func TestSmallLinkCutsWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct{ cut, first, second float64 }{
		"none":                {0, 16, 14},
		"six":                 {6, 16, 8},
		"more than is missed": {40, 16, 4},
	} {
		h := newHost(40 * unit)
		h.add(16, 16, 1, func(s *model.SLA) { s.Priority = 1 })
		h.add(14, 14, 1, nil)
		h.add(0, 100, 1, nil)
		h.ticks(10)
		h.w.capacity.set(20 * unit)
		h.w.capacity.cut = c.cut * unit
		h.tick()
		for i, want := range []float64{c.first, c.second} {
			if got := h.out[i].Bits / unit; math.Abs(got-want) > .2 && (i > 0 || got < want) {
				t.Errorf("%s: sender %d may send %.2f, want %.1f", name, i, got, want)
			}
		}
		if got := h.out[2].Bits / unit; got > .2 {
			t.Errorf("%s: the one without a guarantee may send %.2f", name, got)
		}
	}
}

// TestClassesOnASmallerLink: when a link comes to carry less than is guaranteed, the highest class gets all of its guarantees, even if its
// flows are few.
func TestClassesOnASmallerLink(t *testing.T) {
	for name, first := range map[string]float64{"both send": 100, "the lower one comes later": 0} {
		h := newHost(40 * unit)
		h.link.Period = 100 * time.Millisecond
		h.add(20, 100, 1, func(s *model.SLA) { s.Priority = 1 })
		h.add(15, first, 6, nil)
		h.add(0, 100, 5, nil)
		h.ticks(20)
		h.fall(t, 24*unit)
		if first == 0 {
			h.ticks(5)
			h.demand[1] = 100 * unit
			h.ticks(5)
		}
		h.ticks(4)
		for range 51 {
			if h.tick(); h.senders[0].Bits < 19.5*unit {
				t.Fatalf("%s: the higher class gets %.2f of 20", name, h.senders[0].Bits/unit)
			}
		}
	}
}

// TestNothingIsLentThatHarms: of a sender that comes and goes within a few periods, and each time holds another guaranteed sender down,
// nothing is lent for two seconds, so that it does so in a period out of ten instead of one in three; once it stays away all is lent.
func TestNothingIsLentThatHarms(t *testing.T) {
	h := newHost(40 * unit)
	h.link.Period = 100 * time.Millisecond
	h.add(16, 16, 1, nil)
	h.add(14, 0, 10, nil)
	h.add(0, 100, 1, nil)
	h.ticks(10)
	short := 0
	const rounds = 40
	for range rounds {
		h.demand[1] = 100 * unit
		if h.tick(); h.senders[0].Bits < .95*16*unit {
			short++
		}
		h.demand[1] = 0
		for range 2 {
			if h.tick(); h.senders[0].Bits < .95*16*unit {
				short++
			}
		}
	}
	if short > 12 {
		t.Errorf("the other was held down in %d of %d periods", short, 3*rounds)
	}
	h.ticks(25)
	if got := h.out[2].Bits / unit; got < 23 {
		t.Errorf("2.5 s after it went, the one without a guarantee may send %.2f, want what is left, 24", got)
	}
}

// TestNoiseShowsNoCapacity: readings whose noise exceeds what a link is taken for do not raise that.
func TestNoiseShowsNoCapacity(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var c capacity
	c.begin(40)
	c.set(38)
	now := time.Unix(1e9, 0)
	c.next = now.Add(time.Hour)
	for range 5000 { // a little more than three minutes
		now = now.Add(40 * time.Millisecond)
		v := volume{bits: 38 + .4*r.NormFloat64(), noise: .4}
		c.note(now, v, 3)
		if c.rise(now, v, 3, 40*time.Millisecond); c.hat != 38 {
			t.Fatalf("taken for %.2f after %s", c.hat, now.Sub(time.Unix(1e9, 0)))
		}
	}
}
