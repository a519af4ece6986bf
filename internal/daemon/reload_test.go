package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/cli"
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
		o: cli.RunOptions{Config: path}, host: &host{kernel: k, source: observe.New(nil, nil, nil, observe.Options{})},
		log: log, level: &slog.LevelVar{}, started: c,
		runner: (&loop.Runner{Core: core, Source: still{}, Actuator: still{}, Sample: time.Hour, Log: log}).Init(),
	}
	d.host.conf.Store(c)
	d.backend = newBackend(core, d.runner.Call, &wishes{}, func() model.Rules { return d.host.conf.Load().Rules() })
	d.backend.reload = d.reload
	startLoop(t, d.runner, d.backend)
	return d, write
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
			"sample changed: it counts after a restart", "api.group changed: it counts after a restart",
		}},
		{text: "policy: none\nsample: 2s\n", policy: "none", warnings: []string{"sample changed: it counts after a restart"}},
		{text: "policy: none\n", policy: "none"},
	} {
		write(c.text)
		warnings, err := d.backend.tryReload()
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
