package demo_test

import (
	"context"
	"testing"
	"time"

	"sluice/internal/demo"
	"sluice/internal/edge/cli"
	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// The demo's VMs get VFs behind each kind of uplink.
func TestUplinks(t *testing.T) {
	for _, u := range sim.Uplinks {
		var last *model.View
		err := demo.Run(context.Background(), cli.DemoOptions{
			VMs: 4, VFs: 2, Policy: "adaptive", Interval: time.Minute, Speed: 1000, For: 30 * time.Second, Seed: 1, Uplink: string(u),
			Show: func(v *model.View) { last = v },
		})
		if err != nil {
			t.Fatal(err)
		}
		held := 0
		for _, n := range last.Snapshot.NICs() {
			if n.VF != model.NoVF {
				held++
			}
		}
		if held != 2 || last.Snapshot.PFs[0].Uplink.Representors != (u == sim.Representors || u == sim.OVN) {
			t.Errorf("%s: %d VMs have a VF, want 2; uplink %+v", u, held, last.Snapshot.PFs[0].Uplink)
		}
	}
}
