package backend

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/api/v1"
	"sluice/internal/control/loop"
	"sluice/internal/edge/server"
	"sluice/internal/model"
)

// quiet is a Backend whose loop executes every call at once.
func quiet(t testing.TB, path string, now time.Time) *Backend {
	t.Helper()
	rules := model.Rules{Policy: "activity", Interval: time.Minute}
	core, err := loop.NewCore(rules, loop.DefaultOptions, loop.NoJournal{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := OpenOverrides(path)
	if err != nil {
		t.Fatal(err)
	}
	call := func(_ context.Context, f func(time.Time)) error { f(now); return nil }
	b := New(core, call, w, func() model.Rules { return rules })
	b.Now = func() time.Time { return now }
	return b
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestOverridesOutliveTheDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "overrides.json")
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	one := func(kind model.OverrideKind, id model.VMID) model.Override {
		o := model.Override{Kind: kind, VM: id, By: "alice", UID: 1000, At: noon, Reason: "why", Until: later}
		if id != "" {
			o.VMName = "name of " + string(id)
		}
		return o
	}
	for _, c := range []struct {
		verb api.Verb
		id   model.VMID
		want []model.Override
	}{
		{api.VerbPin, "a", []model.Override{one(model.OverridePin, "a")}},
		{api.VerbRelease, "b", []model.Override{one(model.OverridePin, "a"), one(model.OverrideRelease, "b")}},
		{api.VerbRelease, "a", []model.Override{one(model.OverrideRelease, "b"), one(model.OverrideRelease, "a")}},
		{api.VerbUnpin, "b", []model.Override{one(model.OverrideRelease, "a")}},
		{api.VerbDrain, "", []model.Override{one(model.OverrideRelease, "a"), one(model.OverrideDrain, "")}},
		{api.VerbDrain, "", []model.Override{one(model.OverrideRelease, "a"), one(model.OverrideDrain, "")}},
		{api.VerbUnpin, "a", []model.Override{one(model.OverrideDrain, "")}},
		{api.VerbUndrain, "", nil},
	} {
		cmd := server.Command{Verb: c.verb, VM: c.id, User: "alice", UID: 1000, Reason: "why", Until: later}
		if c.id != "" {
			cmd.VMName = "name of " + string(c.id)
		}
		if _, err := quiet(t, path, noon).Do(t.Context(), cmd); err != nil { // a new Backend each time, as after a restart
			t.Fatal(err)
		}
		w, err := OpenOverrides(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, w.List(), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("after %s %s: %s", c.verb, c.id, d)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestOverridesGoBeforeTheConfig(t *testing.T) {
	w := &Overrides{now: []model.Override{
		{Kind: model.OverridePin, VM: "a", VMName: "x"}, {Kind: model.OverrideRelease, VMName: "y"}, {Kind: model.OverrideDrain},
	}}
	got := w.Over(model.Rules{VMs: []model.VMRule{{Match: "conf"}}})
	want := model.Rules{Drain: true, VMs: []model.VMRule{
		{Match: "a", Pin: true, ByHand: true}, {Match: "y", Forbid: true, ByHand: true}, {Match: "conf"},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestOverridesEndByThemselves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "overrides.json")
	now := time.Now().Truncate(time.Second)
	b := quiet(t, path, now)
	res, err := b.Do(t.Context(), server.Command{Verb: api.VerbDrain, For: time.Hour})
	if err != nil || !strings.Contains(res.Text, now.Add(time.Hour).Format(time.TimeOnly)) {
		t.Fatalf("%q, %v: it does not say when it ends", res.Text, err)
	}
	drained := func() bool {
		b.Publish(b.core.View())
		return b.core.View().Rules.Drain
	}
	if !drained() {
		t.Error("it does not count")
	}
	b.Now = func() time.Time { return now.Add(time.Hour - time.Second) }
	if !drained() || len(latest(b).Overrides) != 1 {
		t.Error("it ended early")
	}
	b.Now = func() time.Time { return now.Add(time.Hour) }
	if drained() || len(latest(b).Overrides) != 0 {
		t.Error("it did not end")
	}
	if err := os.WriteFile(path, []byte(`{"version":1,"overrides":[{"kind":"drain","until":"2001-01-01T00:00:00Z"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if w, err := OpenOverrides(path); err != nil || len(w.List()) != 0 {
		t.Errorf("one that ended while the daemon was away counts: %v", err)
	}
}

// A change that the loop rejects must not come back at the next start.
func TestRefusedOverrideIsUndone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "overrides.json")
	b := quiet(t, path, noon)
	if _, err := b.Do(t.Context(), server.Command{Verb: api.VerbPin, VM: "a", VMName: "a"}); err != nil {
		t.Fatal(err)
	}
	b.call = func(context.Context, func(time.Time)) error { return errors.New("the loop is stuck") }
	for _, verb := range []api.Verb{api.VerbRelease, api.VerbDrain, api.VerbUnpin} {
		_, err := b.Do(t.Context(), server.Command{Verb: verb, VM: "a", VMName: "a"})
		if verb == api.VerbDrain {
			_, err = b.Do(t.Context(), server.Command{Verb: verb})
		}
		if err == nil || !strings.Contains(err.Error(), "nothing was changed: the loop is stuck") {
			t.Errorf("%s: %v", verb, err)
		}
		w, err := OpenOverrides(path)
		if err != nil || len(w.List()) != 1 || w.List()[0].Kind != model.OverridePin || len(b.overrides.List()) != 1 {
			t.Errorf("after a failed %s: %+v on disk, %+v in memory, %v", verb, w.List(), b.overrides.List(), err)
		}
	}
}

func TestWhatCannotBeUndoneIsTold(t *testing.T) {
	dir := t.TempDir()
	b := quiet(t, filepath.Join(dir, "overrides.json"), noon)
	b.call = func(context.Context, func(time.Time)) error {
		return errors.Join(errors.New("the loop is stuck"), os.RemoveAll(dir))
	}
	_, err := b.Do(t.Context(), server.Command{Verb: api.VerbDrain})
	if err == nil || !strings.Contains(err.Error(), "the loop is stuck") || !strings.Contains(err.Error(), "takes effect at the next start") ||
		strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("have %v", err)
	}
	if list := b.overrides.List(); len(list) > 0 {
		t.Errorf("in force: %v", list)
	}
}

func TestOverrideThatCannotBeKeptDoesNotCount(t *testing.T) {
	b := quiet(t, "", noon)
	b.overrides.path = filepath.Join(t.TempDir(), "no", "such", "dir", "overrides.json")
	_, err := b.Do(t.Context(), server.Command{Verb: api.VerbDrain})
	var refusal *api.Error
	if !errors.As(err, &refusal) || !strings.Contains(refusal.Remedy, "mkdir -p") {
		t.Errorf("have %v, want the remedy for a missing directory", err)
	}
	if len(b.overrides.List()) != 0 || b.core.View().Rules.Drain {
		t.Error("drain counts though it was not saved")
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "overrides.json")
	for name, make := range map[string]func() error{
		"damaged":      func() error { return os.WriteFile(path, []byte("{"), 0o600) },
		"empty":        func() error { return os.WriteFile(path, nil, 0o600) },
		"other things": func() error { return os.WriteFile(path, []byte(`{"version":1,"overrides":[{"kind":"sing"}]}`), 0o600) },
		"no VM":        func() error { return os.WriteFile(path, []byte(`{"version":1,"overrides":[{"kind":"pin"}]}`), 0o600) },
		"a later one":  func() error { return os.WriteFile(path, []byte(`{"version":2}`), 0o600) },
		"a FIFO":       func() error { return syscall.Mkfifo(path, 0o600) },
		"a directory":  func() error { return os.Mkdir(path, 0o700) },
		"300 MB": func() error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 300<<20))
		},
	} {
		if err := errors.Join(os.RemoveAll(path), make()); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenOverrides(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("%s: error %v, want the path and a remedy", name, err)
		}
	}
}

func TestTooManyOverridesAreRefused(t *testing.T) {
	b := quiet(t, filepath.Join(t.TempDir(), "overrides.json"), noon)
	b.overrides.now = make([]model.Override, maxOverrides)
	if _, err := b.Do(t.Context(), server.Command{Verb: api.VerbPin, VM: "a", VMName: "a"}); err == nil ||
		!strings.Contains(err.Error(), "sluice unpin") {
		t.Errorf("have %v", err)
	}
}

// Any file content is either rejected or read; what is read can be written and read again.
func FuzzOverrides(f *testing.F) {
	text, err := encode([]model.Override{
		{Kind: model.OverridePin, VM: "id", VMName: "n", By: "root", At: noon, Until: noon},
		{Kind: model.OverrideDrain},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version":1,"overrides":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := decode(text)
		if err != nil {
			return
		}
		again, err := encode(list)
		if err != nil {
			t.Fatal(err)
		}
		back, err := decode(again)
		if d := cmp.Diff(list, back, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Fatal(err, d)
		}
		(&Overrides{now: list}).Over(model.Rules{})
	})
}
