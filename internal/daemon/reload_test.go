package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/config"
	"sluice/internal/control/bandwidth"
	"sluice/internal/control/loop"
	"sluice/internal/daemon/runner"
	"sluice/internal/edge/backend"
	"sluice/internal/host/actuate"
	"sluice/internal/host/kernel"
	"sluice/internal/host/observe"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// testDaemon runs the loop of a daemon without libvirt, on a host without PFs.
func testDaemon(t *testing.T, text string) (d *daemonState, write func(string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	write = func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	c, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	k, err := kernel.New(kernel.Options{SysFS: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	core, err := loop.NewCore(c.Rules(), loopOptions(c), loop.NoJournal{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	d = &daemonState{
		o: Options{Config: path}, host: &host{kernel: k, source: observe.New(nil, uplink.Set{}, nil, nil, observe.Options{})},
		log: log, level: &slog.LevelVar{}, started: c, over: &backend.Overrides{},
		runner: (&runner.Placement{Core: core, Source: still{}, Actuator: still{}, Sample: time.Hour, Log: log}).Init(),
	}
	if err := d.limit(c, actuate.New(k, nil, nil, log)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.reader.Close() })
	d.host.conf.Store(c)
	d.backend = backend.New(core, d.runner.Call, d.over, func() model.Rules { return d.host.conf.Load().Rules() })
	d.backend.Reload = d.reload
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- d.runner.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return d, write
}

// still is an empty host on which nothing happens.
type still struct{}

func (still) Snapshot(context.Context) (*model.Snapshot, error) {
	return &model.Snapshot{Time: time.Now()}, nil
}

func (still) Do(context.Context, model.Step) error { return errors.New("there is nothing to do") }

// Allocator, period, and what the stop lifts can change while the daemon runs.
func TestReloadChangesBandwidth(t *testing.T) {
	d, write := testDaemon(t, "policy: fair\n")
	if v := d.limits.View(); v.Allocator != "waterfill" || d.limits.Period != config.Default().Bandwidth.Period {
		t.Errorf("begins with %s, %s", v.Allocator, d.limits.Period)
	}
	write("policy: fair\nbandwidth: {allocator: equal, period: 40ms, stop: lift}\n")
	if _, err := d.backend.TryReload(); err != nil {
		t.Fatal(err)
	}
	if v := d.limits.View(); v.Allocator != "equal" || d.limits.Period != 40*time.Millisecond || !d.limits.LiftAll {
		t.Errorf("after a reload %s, %s, lifts all: %v", v.Allocator, d.limits.Period, d.limits.LiftAll)
	}
	if o := d.bandwidthOptions(d.host.conf.Load()); o.NoTree {
		t.Errorf("without bandwidth.tree: %+v", o)
	}
	write("policy: fair\nbandwidth: {allocator: dbavm, tree: off}\n")
	if _, err := d.backend.TryReload(); err != nil {
		t.Fatal(err)
	}
	if want := bandwidth.Allocators()["dbavm"].Period; d.limits.Period != want || want == config.Default().Bandwidth.Period {
		t.Errorf("without a period %s, want dbavm's, %s", d.limits.Period, want)
	}
	if o := d.bandwidthOptions(d.host.conf.Load()); !o.NoTree {
		t.Errorf("with tree: off: %+v", o)
	}
}

func TestReload(t *testing.T) {
	d, write := testDaemon(t, "policy: fair\n")
	for _, c := range []struct {
		text, policy, bad string
		level             slog.Level
		warnings          []string
	}{
		{text: "policy: none\nlog: {level: debug}\n", policy: "none", level: slog.LevelDebug},
		{text: "policy: fair\ninterval: 7\n", bad: "sluice.yaml:2:", policy: "none", level: slog.LevelDebug},
		{text: "policy: fair\npfs: [{name: nosuch}]\n", bad: "unknown PF", policy: "none", level: slog.LevelDebug},
		{text: "policy: fair\nsample: 2s\napi: {group: wheel}\n", policy: "fair", warnings: []string{
			"sample changed: it takes effect after a restart", "api.group changed: it takes effect after a restart",
		}},
		{text: "policy: none\nsample: 2s\n", policy: "none", warnings: []string{"sample changed: it takes effect after a restart"}},
		{text: "policy: none\n", policy: "none"},
	} {
		write(c.text)
		warnings, err := d.backend.TryReload()
		if (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: error %v, want %q", c.text, err, c.bad)
		}
		var changed []string
		for _, w := range warnings {
			if !strings.Contains(w, "lists no PF") {
				changed = append(changed, w)
			}
		}
		if diff := cmp.Diff(c.warnings, changed); diff != "" {
			t.Errorf("%s: %s", c.text, diff)
		}
		var rules model.Rules
		if err := d.runner.Call(t.Context(), func(time.Time) { rules = d.runner.Core.View().Rules }); err != nil {
			t.Fatal(err)
		}
		if rules.Policy != c.policy || d.level.Level() != c.level || d.host.conf.Load().Policy != c.policy {
			t.Errorf("%s: policy %s, level %s, want %s and %s", c.text, rules.Policy, d.level.Level(), c.policy, c.level)
		}
	}
}

// A reload reports what happens to VFs that VMs hold and that are no longer in the pool.
func TestReloadSaysWhichVFsLeave(t *testing.T) {
	vf := func(pf string, n int, holder model.VMID) model.VF {
		owner := model.OwnerSluice
		if holder == "" {
			owner = model.OwnerFree
		}
		return model.VF{ID: model.VFID{PF: pf, Index: n}, Holder: holder, Owner: owner}
	}
	v := &model.View{Snapshot: &model.Snapshot{
		PFs: []model.PF{
			{Name: "pf0", VFs: []model.VF{vf("pf0", 0, "a"), vf("pf0", 1, "b"), vf("pf0", 2, "")}},
			{Name: "pf1", VFs: []model.VF{vf("pf1", 0, "c"), vf("pf1", 1, "")}},
		},
		VMs: []model.VM{{ID: "a", Name: "alpha"}, {ID: "b", Name: "beta"}, {ID: "c", Name: "gamma"}},
	}}
	all := observe.PoolPF{All: true}
	for _, c := range []struct {
		name string
		pool observe.Pool
		mode model.Mode
		want []string
	}{
		{"all stays", observe.Pool{"pf0": all, "pf1": all}, model.ModeEnforce, nil},
		{"a PF leaves", observe.Pool{"pf0": all}, model.ModeEnforce, []string{
			"pf1 is no longer listed: its VFs are given up, and these VMs move to virtio or to a VF of another PF: gamma (pf1/0)",
		}},
		{"a PF leaves in observe mode", observe.Pool{"pf0": all}, model.ModeObserve, []string{
			"pf1 is no longer listed: in enforce mode these VMs would give up its VFs: gamma (pf1/0)",
		}},
		{"VFs leave", observe.Pool{"pf0": {VFs: []int{0}}, "pf1": all}, model.ModeEnforce, []string{
			"pf0: VFs that `vfs:` no longer lists stay with their VMs until these give them up: beta (pf0/1)",
		}},
		{"free ones leave", observe.Pool{"pf0": {VFs: []int{0, 1}}, "pf1": {VFs: []int{0}}}, model.ModeEnforce, nil},
	} {
		if diff := cmp.Diff(c.want, leaving(v, c.pool, c.mode)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}
