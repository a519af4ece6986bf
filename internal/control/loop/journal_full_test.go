package loop

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/model"
)

// A disk that is full keeps VFs from being moved, not a VM that is cut off from being
// repaired; and no VM has to rest for it.
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

func TestFullDiskIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{has: map[model.VMID]bool{}}
		j := &memJournal{err: syscall.ENOSPC}
		o := DefaultOptions
		o.Mode = model.ModeEnforce
		core, err := NewCore(model.Rules{Policy: "fair", Interval: time.Minute}, o, j, nil)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		var last *model.View
		r := (&Runner{
			Core: core, Source: w, Actuator: w, Sample: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Publish: func(v *model.View) { last = v },
		}).Init()
		ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "no space left on device"); n != 1 || !strings.Contains(strings.Join(last.Errors, ""), "no space left on device") {
			t.Errorf("told %d times, and the View says %q; log:\n%s", n, last.Errors, log.String())
		}
	})
}

// A state_dir that cannot be used at the start keeps nobody from looking and repairing,
// and is used once it can be.
func TestLateJournal(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "file")
	must(t, os.WriteFile(blocked, nil, 0o600)) // no directory
	path := filepath.Join(blocked, "state", "journal")
	log := slog.New(slog.DiscardHandler)
	j, left, trouble, err := OpenLateJournal(path, log)
	if err != nil || trouble == nil || len(left) != 0 {
		t.Fatalf("trouble %v, error %v", trouble, err)
	}
	if err := j.Begin(someMove("a")); err == nil {
		t.Error("a Move begins without a journal")
	}
	must(t, j.End(someMove("a")))
	must(t, os.Remove(blocked))
	must(t, j.Begin(someMove("a")))
	must(t, j.Begin(someMove("b")))
	must(t, j.End(someMove("a")))
	must(t, j.Close())
	j, left, trouble, err = OpenLateJournal(path, log)
	if err != nil || trouble != nil || len(left) != 1 || left[0].VM != "b" {
		t.Errorf("left %v, trouble %v, error %v; want b", left, trouble, err)
	}
	must(t, j.Close())
	must(t, os.WriteFile(path, []byte("nonsense\nmore\n"), 0o600))
	if _, _, trouble, err := OpenLateJournal(path, log); err == nil || trouble != nil {
		t.Errorf("a damaged journal: trouble %v, error %v; want an error", trouble, err)
	}
}
