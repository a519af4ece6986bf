package journal

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/model"
)

func reopen(t *testing.T, path string) (e *Events, ids []uint64, log string) {
	t.Helper()
	var b bytes.Buffer
	e, list := OpenEvents(path, slog.New(slog.NewTextHandler(&b, nil)))
	t.Cleanup(func() { _ = e.Close() })
	for i := range list {
		ids = append(ids, list[i].ID)
	}
	return e, ids, b.String()
}

// An event comes back as it was, in any number of runs.
func TestEventsOutlastTheirRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "events")
	want := model.Event{
		ID: 1, At: time.Date(2026, 3, 1, 12, 0, 0, 1, time.UTC), Kind: model.EventUnplug, VM: "id", VMName: "web\n07", VF: model.VFID{PF: "pf0", Index: 3},
		Cause: model.Cause{Kind: model.CauseLinkDown, PF: "pf0"}, Alarm: true, About: []model.Party{{VM: "db", VMName: "db-1"}},
	}
	for n := range uint64(3) {
		e, list := OpenEvents(path, slog.New(slog.DiscardHandler))
		if uint64(len(list)) != n || n > 0 && !reflect.DeepEqual(list[0], want) {
			t.Fatalf("%d: %+v", n, list)
		}
		one := want
		one.ID = n + 1
		e.Add(&one)
		must(t, e.Close())
	}
}

// Whatever is done to the file, what is written later is read, in order, and so is what was not touched.
func TestDamagedEventsAreSkipped(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		path := filepath.Join(t.TempDir(), "events")
		e, _, _ := reopen(t, path)
		for id := range uint64(5) {
			e.Add(&model.Event{ID: id + 1, Text: "some text"})
		}
		must(t, e.Close())
		b, err := os.ReadFile(path)
		must(t, err)
		from := rapid.IntRange(0, len(b)).Draw(r, "from")
		to := rapid.IntRange(from, len(b)).Draw(r, "to")
		b = slices.Concat(b[:from], rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(r, "junk"), b[to:])
		must(t, os.WriteFile(path, b, 0o600))
		e, left, _ := reopen(t, path)
		next := uint64(1)
		if len(left) > 0 {
			next = left[len(left)-1] + 1
		}
		if before := bytes.Count(b[:from], []byte("\n")); len(left) < before || !slices.IsSorted(left) {
			r.Fatalf("left %v of %d before the damage", left, before)
		}
		e.Add(&model.Event{ID: next})
		e.Add(&model.Event{ID: next + 1})
		must(t, e.Close())
		if _, got, _ := reopen(t, path); !slices.Equal(got, append(left, next, next+1)) {
			r.Fatalf("have %v, want %v and %d and the next", got, left, next)
		}
	})
}

// The files stay small, and what is lost is the oldest.
func TestEventsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	e, _, _ := reopen(t, path)
	text := string(bytes.Repeat([]byte("x"), 10_000))
	const n = 700 // 7 MB
	for id := range uint64(n) {
		e.Add(&model.Event{ID: id + 1, Text: text})
	}
	must(t, e.Close())
	for _, p := range []string{path, path + ".old"} {
		st, err := os.Stat(p)
		must(t, err)
		if st.Size() > maxEvents+maxLine {
			t.Errorf("%s has %d bytes", p, st.Size())
		}
	}
	_, ids, log := reopen(t, path)
	if len(ids) < 200 || ids[len(ids)-1] != n || ids[0] != n+1-uint64(len(ids)) || log != "" {
		t.Errorf("%d events, %v, %s", len(ids), ids, log)
	}
}

// After a full disk, what follows is kept.
func TestEventsAfterAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	e, _, _ := reopen(t, path)
	e.Add(&model.Event{ID: 1})
	disk := e.file
	e.file = halfDisk{disk}
	e.Add(&model.Event{ID: 2})
	e.Add(&model.Event{ID: 3})
	e.file = disk
	e.Add(&model.Event{ID: 4})
	must(t, e.Close())
	if _, ids, _ := reopen(t, path); fmt.Sprint(ids) != "[1 4]" {
		t.Errorf("have %v", ids)
	}
}

// halfDisk writes half of what it gets.
type halfDisk struct{ file }

func (f halfDisk) Write(b []byte) (int, error) {
	n, _ := f.file.Write(b[:len(b)/2])
	return n, syscall.ENOSPC
}

// What is no file of the daemon's stops nobody.
func TestEventsInAnOddPlace(t *testing.T) {
	dir := t.TempDir()
	fifo, huge := filepath.Join(dir, "fifo"), filepath.Join(dir, "huge")
	must(t, syscall.Mkfifo(fifo, 0o600))
	must(t, os.WriteFile(huge, nil, 0o600))
	must(t, os.Truncate(huge, maxJournal+1))
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for _, path := range []string{fifo, huge, filepath.Join(dir, "file", "events")} {
		e, ids, log := reopen(t, path)
		e.Add(&model.Event{ID: 1})
		if len(ids) > 0 || log == "" {
			t.Errorf("%s: %v, log %q", path, ids, log)
		}
	}
}
