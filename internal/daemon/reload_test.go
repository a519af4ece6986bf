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

	"sluice/internal/backend"
	"sluice/internal/kernel"
	"sluice/internal/loop"
	"sluice/internal/model"
	"sluice/internal/observe"
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
		o: Options{Config: path}, host: &host{kernel: k, source: observe.New(nil, nil, nil, observe.Options{})},
		log: log, level: &slog.LevelVar{}, started: c, over: &backend.Overrides{},
		runner: (&loop.Runner{Core: core, Source: still{}, Actuator: still{}, Sample: time.Hour, Log: log}).Init(),
	}
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

// still is a host on which nothing is and nothing happens.
type still struct{}

func (still) Snapshot(context.Context) (*model.Snapshot, error) {
	return &model.Snapshot{Time: time.Now()}, nil
}

func (still) Do(context.Context, model.Step) error { return errors.New("there is nothing to do") }

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
			"sample changed: it counts after a restart", "api.group changed: it counts after a restart",
		}},
		{text: "policy: none\nsample: 2s\n", policy: "none", warnings: []string{"sample changed: it counts after a restart"}},
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
