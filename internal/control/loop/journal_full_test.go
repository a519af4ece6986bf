package loop

import (
	"syscall"
	"testing"
	"time"

	"sluice/internal/model"
)

// A full disk stops VFs from being moved, but not a VM that is cut off from being repaired; and no VM has to back off because of
// it.
func TestRepairsNeedNoJournal(t *testing.T) {
	h := newHand(t, Options{Parallel: 4, Backoff: time.Hour, BackoffMax: time.Hour})
	h.vfs = 1
	h.book.err = syscall.ENOSPC
	h.edit = deaf
	if did := h.do(h.tick(), works); len(did) == 0 || did[0] != "route-to-tap b" {
		t.Errorf("b is cut off and the disk is full: steps %v", did)
	}
	if h.Trouble() == nil || h.has["a"] != 0 || len(h.has) != 0 {
		t.Errorf("trouble %v, holders %v: want the journal's error and no move", h.Trouble(), h.has)
	}
	h.edit = func(*model.Snapshot) {}
	for range 5 {
		h.do(h.tick(), works)
	}
	if h.book.asked != 1 {
		t.Errorf("a full disk is written to %d times in 6 s", h.book.asked)
	}
	h.book.err = nil
	for range int(journalRest / time.Second) {
		h.do(h.tick(), works)
	}
	if len(h.has) != 1 || h.Trouble() != nil {
		t.Errorf("%s after there was space again: holders %v, trouble %v", journalRest, h.has, h.Trouble())
	}
	if f := h.View().Totals.Failed; f != 0 {
		t.Errorf("%d moves count as failed", f)
	}
}
