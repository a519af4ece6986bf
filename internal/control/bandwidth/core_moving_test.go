package bandwidth

import (
	"testing"

	"sluice/internal/model"
)

// What a link carries is learned at once from NICs that had their VFs before they were seen, but not while a path changes.
func TestOnlyMovesKeepFromLearning(t *testing.T) {
	r := newRig(t, 2)
	r.rule(0, model.SLA{Guarantee: model.Rate{Bits: 2e9}})
	r.plug(0, 0)
	r.follow()
	moving := func() bool {
		for range 2 { // the counters have to be read twice
			r.tick()
		}
		return r.c.links[0].alloc.(*tenth).link.Moving
	}
	if moving() {
		t.Error("a VF that was there before is taken for a move")
	}
	r.plug(1, 1)
	r.follow()
	if !moving() {
		t.Error("the volume is believed while a NIC moves to a VF")
	}
}
