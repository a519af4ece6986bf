//go:build lab

package e2e

import (
	"testing"
	"time"
)

const activity = `mode: enforce
policy: activity
interval: 5s
pfs:
  - {name: pf0, vfs: 0-1}
`

func TestTheBusiestHoldTheVFs(t *testing.T) {
	r := newRig(t, activity, "vm1", "vm2", "vm3", "vm4")
	for vm, pps := range map[string]float64{"vm1": 40, "vm2": 30, "vm3": 4, "vm4": 2} {
		r.rate(vm, pps)
	}
	t.Logf("first holders after %s", r.holding(60*time.Second, "vm1", "vm2"))
	r.idle(30 * time.Second)
	for vm, pps := range map[string]float64{"vm1": 2, "vm2": 4, "vm3": 30, "vm4": 40} {
		r.rate(vm, pps)
	}
	took := r.holding(60*time.Second, "vm3", "vm4")
	t.Logf("holders followed the load after %s", took)
	r.idle(30 * time.Second)
	for _, vm := range []string{"vm1", "vm2", "vm3", "vm4"} {
		r.reach(vm)
		t.Log(vm, r.explain(vm))
	}
	r.clean()
}
