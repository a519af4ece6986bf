package backend

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/api/v1"
	"sluice/internal/control/loop"
	"sluice/internal/daemon/runner"
	"sluice/internal/edge/answer"
	"sluice/internal/edge/server"
	"sluice/internal/model"
)

// still is a host with one VM and one VF on which nothing changes.
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
	r := (&runner.Placement{Core: core, Source: still{}, Actuator: still{}, Sample: time.Second, Log: slog.New(slog.DiscardHandler)}).Init()
	b := New(core, r.Call, &Overrides{}, func() model.Rules { return rules })
	startLoop(t, r, b)
	return b
}

// startLoop runs the loop until the test ends.
func startLoop(t *testing.T, r *runner.Placement, b *Backend) {
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

func latest(b *Backend) *model.View {
	v, _ := b.View()
	return v
}

func TestCommandsChangeTheVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testBackend(t)
		if latest(b) == nil {
			t.Fatal("no View before the first tick")
		}
		for _, c := range []struct {
			verb api.Verb
			want model.Code
		}{
			{api.VerbPin, model.CodePinned},
			{api.VerbRelease, model.CodeReleased},
			{api.VerbUnpin, model.CodeEnough},
			{api.VerbDrain, model.CodeDrain},
			{api.VerbUndrain, model.CodeEnough},
		} {
			res, err := b.Do(t.Context(), server.Command{Verb: c.verb, VM: "id", VMName: "vm"})
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Details) == 0 || !strings.Contains(res.Details[0], "observe mode") {
				t.Errorf("%s: %v does not warn of observe mode", c.verb, res.Details)
			}
			time.Sleep(1500 * time.Millisecond)
			if got := latest(b).Target.Reasons[0].Code; got != c.want {
				t.Errorf("after %s: %q, want %q", c.verb, got, c.want)
			}
		}
	})
}

func TestNothingToUnpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testBackend(t)
		for _, c := range []struct {
			verb api.Verb
			want string
		}{
			{api.VerbUnpin, "there is nothing to undo"},
			{api.VerbPin, "is pinned"},
			{api.VerbUnpin, "the policy decides about vm again"},
			{api.VerbUnpin, "there is nothing to undo"},
		} {
			res, err := b.Do(t.Context(), server.Command{Verb: c.verb, VM: "id", VMName: "vm"})
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
		_, err := b.Do(t.Context(), server.Command{Verb: api.VerbReload})
		var refusal *api.Error
		if !errors.As(err, &refusal) || !strings.Contains(refusal.Text, "sluice.yaml:3:1") {
			t.Errorf("error %v, want a refusal that names the place", err)
		}
		time.Sleep(1500 * time.Millisecond)
		if got := strings.Join(latest(b).Errors, ""); !strings.Contains(got, "sluice.yaml:3:1") {
			t.Errorf("the View's error is %q, want that of the reload", got)
		}
		b.Reload = func() ([]string, error) { return []string{"a warning"}, nil }
		res, err := b.Do(t.Context(), server.Command{Verb: api.VerbReload})
		if err != nil || len(res.Details) != 1 {
			t.Errorf("answer %v, error %v; want the warning", res, err)
		}
		time.Sleep(1500 * time.Millisecond)
		if got := latest(b).Errors; len(got) > 0 {
			t.Errorf("after a good reload the View's error is %q", got)
		}
	})
}

func TestViewShowsBothErrors(t *testing.T) {
	b := quiet(t, "", noon)
	text := "bad file"
	b.stale.Store(&text)
	b.Publish(&model.View{Snapshot: &model.Snapshot{}, Target: &model.Target{}, Errors: []string{"no libvirt"}})
	if got := latest(b).Errors; !slices.Equal(got, []string{"no libvirt", "bad file"}) {
		t.Errorf("errors %q", got)
	}
}

// A waiting client gets the latest View, and learns of every later one.
func TestViewsHaveRevisions(t *testing.T) {
	b := quiet(t, "", noon)
	first, newer := b.View()
	select {
	case <-newer:
		t.Fatal("news without a new View")
	default:
	}
	b.Publish(b.core.View())
	<-newer
	second, _ := b.View()
	if second.Revision != first.Revision+1 {
		t.Errorf("revision %d after %d", second.Revision, first.Revision)
	}
	if other, _ := quiet(t, "", noon).View(); other.Revision < uint64(time.Now().Add(-time.Hour).UnixMilli()) || other.Revision >= 1<<53 {
		t.Errorf("a daemon begins with revision %d, which an earlier one may have had or JavaScript cannot hold", other.Revision)
	}
}

func TestMemoryIsWrittenOutsideTheLoop(t *testing.T) {
	b := quiet(t, "", noon)
	inside := false
	b.call = func(_ context.Context, f func(time.Time)) error {
		inside = true
		f(noon)
		inside = false
		return nil
	}
	m, err := b.Memory(t.Context())
	if err != nil || inside || !strings.Contains(string(m.State), `"Placement"`) {
		t.Errorf("%s, %v", m.State, err)
	}
}

// Every Sample is kept once, however often its View is published, and no more than the last few are.
func TestSamplesAreKept(t *testing.T) {
	b := quiet(t, "", noon)
	at := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }
	b.Publish(&model.View{}) // nothing observed yet
	for n := range keepSamples + 2 {
		s := &model.Snapshot{Time: at(n)}
		for range 2 { // the second one after a part of a move
			b.Publish(&model.View{Snapshot: s, Target: &model.Target{Time: at(n).Add(time.Millisecond)}, Rules: model.Rules{Policy: strconv.Itoa(n)}})
		}
	}
	v, _ := b.View()
	const last = keepSamples + 1
	for since, want := range map[int]int{-5: keepSamples, 1: keepSamples, 2: keepSamples - 1, last - 1: 1} {
		seen := answer.LastSeen(v, at(since))
		all := append(slices.Clone(seen.Earlier), seen.Sample)
		if len(all) != want {
			t.Errorf("since %d: %d samples, want %d", since, len(all), want)
		}
		for i, s := range all {
			n := last + 1 - len(all) + i
			if !s.Snapshot.Time.Equal(at(n)) || s.Number != uint64(n)+1 || s.Rules.Policy != strconv.Itoa(n) {
				t.Errorf("since %d: sample %d is number %d of %s, policy %s", since, n, s.Number, s.Snapshot.Time, s.Rules.Policy)
			}
		}
	}
	if seen := answer.LastSeen(v, time.Time{}); len(seen.Earlier) > 0 || !seen.Snapshot.Time.Equal(at(last)) {
		t.Errorf("without a time: %d samples before that of %s", len(seen.Earlier), seen.Snapshot.Time)
	}
}
