package bandwidth

import (
	"testing"

	"sluice/internal/model"
)

// squeezed is a full link of 10 on which one flow with a guarantee of 5 competes with ten, two seconds after the link began to carry
// less.
func squeezed(carries float64, edit func(*host)) *host {
	h := newHost(10 * unit)
	h.add(5, 100, 1, nil)
	h.add(0, 100, 5, nil)
	h.add(0, 100, 5, nil)
	if edit != nil {
		edit(h)
	}
	h.ticks(30)
	h.carries = carries * unit
	h.ticks(10)
	return h
}

// TestTrialFindsTheLink: what a guaranteed sender alone lacks is missing from the link, however much it is.
func TestTrialFindsTheLink(t *testing.T) {
	for _, carries := range []float64{8, 7, 6, 4} {
		h := squeezed(carries, nil)
		if c := h.w.Capacity() / unit; c < 0.98*carries || c > 1.02*carries {
			t.Errorf("carries %v: taken for %.2f", carries, c)
		}
		if got := h.senders[0].Bits / unit; got < 0.97*min(5, carries) {
			t.Errorf("carries %v: the guarantee of 5 gets %.2f", carries, got)
		}
	}
}

// TestNoTrialAtOthersCost: there is no trial if senders that cannot be limited are the cause, nor if it could leave others less than
// they are promised.
func TestNoTrialAtOthersCost(t *testing.T) {
	for name, edit := range map[string]func(*host){
		"uncontrolled": func(h *host) { h.link.Uncontrolled = true },
		"promised":     func(h *host) { h.add(4, 0.1, 1, func(s *model.SLA) { s.Limit.Bits = 4 * unit }) },
	} {
		w := squeezed(7, edit).w
		if c := w.Capacity() / unit; c != 10 || !w.capacity.trial.began.IsZero() {
			t.Errorf("%s: taken for %.2f, a trial began at %s", name, c, w.capacity.trial.began)
		}
	}
}

// TestTrialCostsLittle: if the guaranteed sender itself wants less, the link's capacity is restored, and the others get the rest
// after a moment.
func TestTrialCostsLittle(t *testing.T) {
	h := squeezed(10, nil)
	h.demand[0] = 2 * unit
	trials, sum := 0, 0.0
	for range 50 {
		was := h.w.capacity.trial.on
		h.tick()
		if h.w.capacity.trial.on && !was {
			trials++
		}
		sum += h.senders[1].Bits + h.senders[2].Bits
	}
	if trials > 3 {
		t.Errorf("%d trials in 10 s", trials)
	}
	if c := h.w.Capacity(); c != h.link.Speed {
		t.Errorf("taken for %.2f of 10", c/unit)
	}
	if mean := sum / 50 / unit; mean < 0.9*8 {
		t.Errorf("the others send %.2f of 8 that are left", mean)
	}
}
