package loop

import (
	"testing"

	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
)

// expected is a Plugs that lets every plug begin, and counts the calls of Expect.
type expected map[model.NICID]int

func (e expected) Expect(id model.NICID)                   { e[id]++ }
func (expected) Plug(model.NICID) (_ model.Rate, _ string) { return }
func (expected) Contained() (none []bandwidth.Contained)   { return none }

// Expect is called only for a NIC whose plug can begin, not for those that wait in the queue.
func TestOnlyTheNextPlugIsExpected(t *testing.T) {
	h, p := newHand(t, Options{Parallel: 1}), expected{}
	h.LimitPlugs(p)
	if steps := h.tick(); len(steps) != 1 {
		t.Fatalf("began %v, want one plug", steps)
	}
	for range 3 {
		h.tick()
	}
	if len(h.waiting) != 1 || len(p) != 1 || p[nicOf(h.waiting[0])] > 0 {
		t.Errorf("%d plugs wait, expected %v", len(h.waiting), p)
	}
}
