package backend

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/loop"
	"sluice/internal/model"
	"sluice/internal/web"
)

// still is a host with one VM and one VF on which nothing happens.
type still struct{}

func (still) Snapshot(context.Context) (*model.Snapshot, error) {
	return &model.Snapshot{
		Time: time.Now(),
		PFs: []model.PF{{Name: "pf0", Network: "br0", Managed: true, LinkUp: true, VFs: []model.VF{
			{ID: model.VFID{PF: "pf0"}, Owner: model.OwnerFree},
		}}},
		VMs: []model.VM{{ID: "id", Name: "vm", State: model.VMRunning, NICs: []model.NIC{
			{Alias: "ua-0", Network: "br0", Failover: model.FailoverTeaming, Virtio: model.Traffic{Known: true}},
		}}},
	}, nil
}

func (still) Do(context.Context, model.Step) error { return errors.New("observe mode must not act") }

func testBackend(t *testing.T) *Backend {
	t.Helper()
	rules := model.Rules{Policy: "activity", Interval: time.Minute}
	core, err := loop.NewCore(rules, loop.DefaultOptions, loop.NoJournal{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := (&loop.Runner{Core: core, Source: still{}, Actuator: still{}, Sample: time.Second, Log: slog.New(slog.DiscardHandler)}).Init()
	b := New(core, r.Call, &Overrides{}, func() model.Rules { return rules })
	startLoop(t, r, b)
	return b
}

// startLoop runs the loop until the test ends.
func startLoop(t *testing.T, r *loop.Runner, b *Backend) {
	r.Publish = b.Publish
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestCommandsChangeTheVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testBackend(t)
		if b.View() == nil {
			t.Fatal("no View before the first tick")
		}
		for _, c := range []struct {
			verb web.Verb
			want model.Code
		}{
			{web.VerbPin, model.CodePinned},
			{web.VerbRelease, model.CodeReleased},
			{web.VerbUnpin, model.CodeEnough},
			{web.VerbDrain, model.CodeDrain},
			{web.VerbUndrain, model.CodeEnough},
		} {
			res, err := b.Do(t.Context(), web.Command{Verb: c.verb, VM: "id", VMName: "vm"})
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Details) == 0 || !strings.Contains(res.Details[0], "observe mode") {
				t.Errorf("%s: %v does not warn of observe mode", c.verb, res.Details)
			}
			time.Sleep(1500 * time.Millisecond)
			if got := b.View().Target.Reasons[0].Code; got != c.want {
				t.Errorf("after %s: %q, want %q", c.verb, got, c.want)
			}
		}
	})
}

func TestNothingToUnpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testBackend(t)
		for _, c := range []struct {
			verb web.Verb
			want string
		}{
			{web.VerbUnpin, "there is nothing to undo"},
			{web.VerbPin, "is pinned"},
			{web.VerbUnpin, "the policy decides about vm again"},
			{web.VerbUnpin, "there is nothing to undo"},
		} {
			res, err := b.Do(t.Context(), web.Command{Verb: c.verb, VM: "id", VMName: "vm"})
			if err != nil || !strings.Contains(res.Text, c.want) {
				t.Errorf("%s: want %s, have %q, %v", c.verb, c.want, res.Text, err)
			}
		}
	})
}

func TestBadReloadIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testBackend(t)
		b.Reload = func() ([]string, error) { return nil, errors.New("sluice.yaml:3:1: unknown key") }
		_, err := b.Do(t.Context(), web.Command{Verb: web.VerbReload})
		var refusal *web.Refusal
		if !errors.As(err, &refusal) || !strings.Contains(refusal.Text, "sluice.yaml:3:1") {
			t.Errorf("error %v, want a refusal that names the place", err)
		}
		time.Sleep(1500 * time.Millisecond)
		if got := b.View().Error; !strings.Contains(got, "sluice.yaml:3:1") {
			t.Errorf("the View's error is %q, want that of the reload", got)
		}
		b.Reload = func() ([]string, error) { return []string{"a warning"}, nil }
		res, err := b.Do(t.Context(), web.Command{Verb: web.VerbReload})
		if err != nil || len(res.Details) != 1 {
			t.Errorf("answer %v, error %v; want the warning", res, err)
		}
		time.Sleep(1500 * time.Millisecond)
		if got := b.View().Error; got != "" {
			t.Errorf("after a good reload the View's error is %q", got)
		}
	})
}

func TestViewShowsBothErrors(t *testing.T) {
	b := &Backend{}
	text := "bad file"
	b.stale.Store(&text)
	b.Publish(&model.View{Snapshot: &model.Snapshot{}, Target: &model.Target{}, Error: "no libvirt"})
	if got := b.View().Error; got != "no libvirt; bad file" {
		t.Errorf("error %q", got)
	}
}
