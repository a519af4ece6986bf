package demo_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/demo"
	"sluice/internal/edge/cli"
	"sluice/internal/edge/client"
	"sluice/internal/tests/testkit"
)

// In the demo, doctor's remedies for misconfigured VMs can be applied and undone.
func TestPrepare(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s.sock")
	ctx, stop := context.WithCancel(t.Context())
	ended, ready := make(chan error, 1), make(chan struct{})
	o := cli.DemoOptions{VMs: 24, VFs: 12, Policy: "adaptive", Interval: time.Minute, Speed: 60, Seed: 1, Troubles: true, Socket: socket}
	go func() { ended <- demo.Run(ctx, o) }()
	go func() {
		for c := client.New(socket); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			if s, err := c.Status(ctx); err == nil && !s.Observed.IsZero() {
				close(ready)
				return
			}
		}
	}()
	<-ready
	c := client.New(socket)
	told := func(vm string) bool {
		d, err := c.Doctor(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(d.Problems, func(p api.Problem) bool {
			return p.Subject == vm && (p.Text == "it has no free PCIe root port, so no VF can be plugged" ||
				p.Text == "NIC ua-net0 has no failover: the guest would not take a VF as its second path")
		})
	}
	wait := func(vm string, want bool) {
		t.Helper()
		for end := time.Now().Add(testkit.Time(30 * time.Second)); told(vm) != want; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: doctor reports it: %t", vm, !want)
			}
		}
	}
	for _, vm := range []string{"web-01", "cache-01"} {
		wait(vm, true)
		for _, step := range []struct {
			r       api.Prepare
			changes int
			problem bool
		}{
			{api.Prepare{VM: vm, DryRun: true}, 1, true},
			{api.Prepare{VM: vm, Undo: true}, 0, true},
			{api.Prepare{VM: vm}, 1, false},
			{api.Prepare{VM: vm}, 0, false},
			{api.Prepare{VM: vm, Undo: true}, 1, true},
		} {
			list, err := c.Prepare(ctx, step.r)
			if err != nil || len(list) != 1 || len(list[0].Changes) != step.changes || list[0].Defined != (step.changes > 0 && !step.r.DryRun) {
				t.Fatalf("%+v: %+v, %v", step.r, list, err)
			}
			wait(vm, step.problem)
		}
	}
	if _, err := c.Prepare(ctx, api.Prepare{VM: "nobody"}); err == nil {
		t.Error("a VM that is not there can be prepared")
	}
	if list, err := c.Prepare(ctx, api.Prepare{All: true, DryRun: true}); err != nil || len(list) != 24 {
		t.Errorf("all are %d, %v", len(list), err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
