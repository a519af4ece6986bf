package backend

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
	"sluice/internal/web"
)

func TestWishesOutliveTheDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wishes.json")
	do := func(verb web.Verb, id model.VMID) {
		t.Helper()
		w, err := OpenOverrides(path) // afresh each time, as after a restart
		if err != nil {
			t.Fatal(err)
		}
		_, change := wish(web.Command{Verb: verb, VM: id, VMName: "name of " + string(id)})
		if err := w.change(change); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		verb web.Verb
		id   model.VMID
		want []model.VMRule
		all  bool // drain
	}{
		{web.VerbPin, "a", []model.VMRule{{Match: "a", Pin: true, ByHand: true}}, false},
		{web.VerbRelease, "b", []model.VMRule{{Match: "a", Pin: true, ByHand: true}, {Match: "b", Forbid: true, ByHand: true}}, false},
		{web.VerbRelease, "a", []model.VMRule{{Match: "b", Forbid: true, ByHand: true}, {Match: "a", Forbid: true, ByHand: true}}, false},
		{web.VerbUnpin, "b", []model.VMRule{{Match: "a", Forbid: true, ByHand: true}}, false},
		{web.VerbDrain, "", []model.VMRule{{Match: "a", Forbid: true, ByHand: true}}, true},
		{web.VerbUndrain, "", []model.VMRule{{Match: "a", Forbid: true, ByHand: true}}, false},
	} {
		do(c.verb, c.id)
		w, err := OpenOverrides(path)
		if err != nil {
			t.Fatal(err)
		}
		got := w.Over(model.Rules{VMs: []model.VMRule{{Match: "conf"}}})
		if d := cmp.Diff(append(c.want, model.VMRule{Match: "conf"}), got.VMs); d != "" || got.Drain != c.all {
			t.Errorf("after %s %s: drain %v, %s", c.verb, c.id, got.Drain, d)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".wishes*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestDamagedWishesAreNotIgnored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wishes.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenOverrides(path); err == nil || !strings.Contains(err.Error(), "remove "+path) {
		t.Errorf("error %v, want the remedy", err)
	}
}

func TestAWishThatCannotBeKeptDoesNotCount(t *testing.T) {
	w := &Overrides{path: filepath.Join(t.TempDir(), "no", "such", "dir", "wishes.json")}
	_, change := wish(web.Command{Verb: web.VerbDrain})
	if err := w.change(change); err == nil {
		t.Fatal("no error")
	}
	if w.Over(model.Rules{}).Drain {
		t.Error("drain counts though it was not saved")
	}
}
