package loop

import (
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
		Steps: []model.Step{{Kind: model.StepAttach, VM: model.VMID(vm)}},
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
	for cut := len(whole) - 1; cut > strings.IndexByte(string(whole), '\n')+1; cut -= 7 {
		must(t, os.WriteFile(path, whole[:cut], 0o600))
		if _, left := open(t, path); len(left) < 1 || left[0].VMName != "a" {
			t.Fatalf("cut at %d: left %v", cut, left)
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
