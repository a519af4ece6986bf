package demo_test

import (
	"context"
	"testing"
	"time"

	"sluice/internal/cli"
	"sluice/internal/demo"
	"sluice/internal/model"
)

// The demo shares its links as the daemon does: what sluice bw shows is there.
func TestBandwidthIsControlled(t *testing.T) {
	var last *model.View
	o := cli.DemoOptions{VMs: 4, VFs: 2, Policy: "adaptive", Interval: time.Minute, Speed: 1000, For: 10 * time.Second, Seed: 1, Show: func(v *model.View) { last = v }}
	if err := demo.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if last == nil || last.Bandwidth == nil {
		t.Fatal("nothing is shown of bandwidth")
	}
	if n := len(last.Bandwidth.NICs); n != 4 {
		t.Fatalf("%d NICs, want 4", n)
	}
	for _, n := range last.Bandwidth.NICs {
		if n.Sent.Bits == 0 {
			t.Errorf("%s sends nothing", n.VMName)
		}
	}
}
