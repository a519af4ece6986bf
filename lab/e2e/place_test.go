//go:build lab

package e2e

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var errNotYet = errors.New("not yet")

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

const fair = `mode: enforce
policy: fair
interval: 20s
pfs:
  - {name: pf0, vfs: 0-1}
`

// TestFairTime checks that in six rounds every VM has a VF for the same time, within one interval.
func TestFairTime(t *testing.T) {
	r := newRig(t, fair, "vm1", "vm2", "vm3", "vm4")
	const interval = 20 * time.Second
	held := map[string]time.Duration{}
	r.eventually(60*time.Second, "two holders", func() error {
		h, err := r.holders()
		if err == nil && len(h) != 2 {
			return errNotYet
		}
		return err
	})
	begin := time.Now()
	for last := begin; last.Sub(begin) < 6*interval; {
		h, err := r.holders()
		r.must(err)
		now := time.Now()
		for _, vm := range h {
			held[vm] += now.Sub(last)
		}
		last = now
		time.Sleep(200 * time.Millisecond)
	}
	lo, hi := time.Hour, time.Duration(0)
	for _, vm := range []string{"vm1", "vm2", "vm3", "vm4"} {
		lo, hi = min(lo, held[vm]), max(hi, held[vm])
		t.Logf("%s had a VF for %s", vm, held[vm].Round(100*time.Millisecond))
	}
	if hi-lo > interval {
		t.Errorf("VF times differ by %s, want at most one interval of %s", hi-lo, interval)
	}
	for _, vm := range []string{"vm1", "vm2", "vm3", "vm4"} {
		r.reach(vm)
	}
}

// TestOwnNetworkOnly gives each of two networks more VFs than it has VMs.
func TestOwnNetworkOnly(t *testing.T) {
	r := newRig(t, "mode: enforce\npolicy: activity\ninterval: 5s\npfs:\n  - {name: pf0, vfs: 0}\n  - {name: pf1, vfs: 0-3}\n", "vm1", "vm2", "vm7")
	for vm, pps := range map[string]float64{"vm1": 5, "vm2": 30, "vm7": 1} {
		r.rate(vm, pps)
	}
	r.holding(60*time.Second, "vm2", "vm7")
	vms, err := r.client.VMs(r.ctx)
	r.must(err)
	for _, v := range vms {
		want := map[string]string{"vm2": "pf0/", "vm7": "pf1/"}[v.Name]
		if !strings.HasPrefix(v.VF, want) || (want == "" && v.VF != "") {
			t.Errorf("%s has VF %q, want one of %q", v.Name, v.VF, want)
		}
	}
	t.Log(r.explain("vm1"))
}
