package loop

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
)

func someMove(vm string) model.Move {
	return model.Move{
		Kind: model.MovePlug, VM: model.VMID(vm), VMName: vm, VF: model.VFID{PF: "pf0", Index: len(vm)},
		Steps: []model.Step{{Kind: model.StepAttach, Subject: model.Subject{VM: model.VMID(vm)}}},
	}
}

func open(t *testing.T, path string) (*FileJournal, []model.Move) {
	t.Helper()
	j, left, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j, left
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestJournalRemembersWhatWasNotEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "journal")
	j, left := open(t, path)
	if len(left) != 0 {
		t.Fatalf("a new journal has %d moves", len(left))
	}
	a, b := someMove("a"), someMove("bb")
	must(t, j.Begin(a))
	must(t, j.Begin(b))
	must(t, j.End(a))
	_, left = open(t, path)
	if d := cmp.Diff([]model.Move{b}, left); d != "" {
		t.Error(d)
	}
	must(t, j.End(b))
	if st, err := os.Stat(path); err != nil || st.Size() != 0 {
		t.Errorf("nothing is under way, but the journal has %v bytes (%v)", st.Size(), err)
	}
}

func TestJournalDropsATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := open(t, path)
	must(t, j.Begin(someMove("a")))
	must(t, j.Begin(someMove("bb")))
	whole, err := os.ReadFile(path)
	must(t, err)
	first := strings.IndexByte(string(whole), '\n') + 1
	for cut := len(whole) - 1; cut > first; cut -= 7 {
		must(t, os.WriteFile(path, whole[:cut], 0o600))
		j, left := open(t, path)
		if d := cmp.Diff([]model.Move{someMove("a")}, left); d != "" {
			t.Fatalf("cut at %d: %s", cut, d)
		}
		must(t, j.Begin(someMove("ccc"))) // not behind half a line
		_, left = open(t, path)
		if d := cmp.Diff([]model.Move{someMove("a"), someMove("ccc")}, left); d != "" {
			t.Fatalf("cut at %d and written again: %s", cut, d)
		}
	}
}

// fullDisk takes half of what is written, or all of it and then does not sync.
type fullDisk struct {
	journalFile
	half, unsynced bool
}

func (f *fullDisk) Write(b []byte) (int, error) {
	if !f.half {
		return f.journalFile.Write(b)
	}
	n, _ := f.journalFile.Write(b[:len(b)/2])
	return n, errors.New("no space left on device")
}

func (f *fullDisk) Sync() error {
	if f.unsynced {
		return errors.New("input/output error")
	}
	return f.journalFile.Sync()
}

func TestJournalGoesOnAfterAFailedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := open(t, path)
	must(t, j.Begin(someMove("a")))
	disk := &fullDisk{journalFile: j.file}
	j.file = disk
	want := []model.Move{someMove("a")}
	for _, bad := range []fullDisk{{half: true}, {unsynced: true}} {
		disk.half, disk.unsynced = bad.half, bad.unsynced
		if err := j.Begin(someMove("bb")); err == nil {
			t.Fatalf("%+v: no error", bad)
		}
		disk.half, disk.unsynced = false, false
		next := someMove(strings.Repeat("c", len(want)+2))
		must(t, j.Begin(next))
		want = append(want, next)
		_, left := open(t, path)
		if d := cmp.Diff(want, left); d != "" {
			t.Errorf("half %v, unsynced %v: %s", bad.half, bad.unsynced, d)
		}
	}
}

func TestJournalRefusesDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	must(t, os.WriteFile(path, []byte("{\"begin\":{}}\ngarbage\n{\"begin\":{}}\n"), 0o600))
	_, _, err := OpenJournal(path)
	if err == nil || !strings.Contains(err.Error(), "line 2") || !strings.Contains(err.Error(), "fsck") {
		t.Errorf("error %v, want line and remedy", err)
	}
}
