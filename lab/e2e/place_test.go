//go:build lab

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var errNotYet = errors.New("not yet")

const activity = `mode: enforce
policy: activity
interval: 5s
guest_agent: {every: 1s, timeout: 1s} # it counts for the holders: five times in a round
pfs:
  - {name: pf0, vfs: 0-1}
moves: {plug_timeout: 60s, unplug_timeout: 60s}
`

// verdict waits until the daemon has decided that exactly these VMs should hold VFs.
func (r *rig) verdict(limit time.Duration, want ...string) time.Duration {
	r.t.Helper()
	begin := time.Now()
	r.eventually(limit, "verdict for "+strings.Join(want, " "), func() error {
		vms, err := r.client.VMs(r.ctx)
		if err != nil {
			return err
		}
		var names []string
		for _, v := range vms {
			if v.Hold {
				names = append(names, v.Name)
			}
		}
		slices.Sort(names)
		if !slices.Equal(names, want) {
			return fmt.Errorf("it is for %v", names)
		}
		return nil
	})
	return time.Since(begin)
}

// TestTheBusiestHoldTheVFs swaps the loads of four guests. At most two intervals later the verdict has followed, and the VFs follow as
// fast as this host can move them (four guests leave its one emulated CPU no idle time).
func TestTheBusiestHoldTheVFs(t *testing.T) {
	r := newRig(t, activity, "vm1", "vm2", "vm3", "vm4")
	const interval = 5 * time.Second
	for vm, pps := range map[string]float64{"vm1": 30, "vm2": 25, "vm3": 3, "vm4": 2} {
		r.rate(vm, pps)
	}
	t.Logf("first holders after %s", r.holding(90*time.Second, "vm1", "vm2"))
	r.idle(60 * time.Second)
	for vm, pps := range map[string]float64{"vm1": 2, "vm2": 3, "vm3": 25, "vm4": 30} {
		r.rate(vm, pps)
	}
	begin := time.Now()
	t.Logf("the verdict followed after %s", r.verdict(2*interval, "vm3", "vm4"))
	r.holding(90*time.Second, "vm3", "vm4")
	t.Logf("the VFs followed after %s", time.Since(begin))
	r.idle(60 * time.Second)
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
moves: {plug_timeout: 60s, unplug_timeout: 60s}
`

// TestFairTime checks that over six rounds every VM has a VF for the same time, within one interval.
func TestFairTime(t *testing.T) {
	r := newRig(t, fair, "vm1", "vm2", "vm3", "vm4")
	const interval = 20 * time.Second
	held := map[string]time.Duration{}
	r.eventually(90*time.Second, "two holders", func() error {
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
	r := newRig(t, "mode: enforce\npolicy: activity\ninterval: 5s\npfs:\n  - {name: pf0, vfs: 0}\n  - {name: pf1, vfs: 0-3}\n"+
		"moves: {plug_timeout: 60s, unplug_timeout: 60s}\n", "vm1", "vm2", "vm7")
	for vm, pps := range map[string]float64{"vm1": 5, "vm2": 30, "vm7": 1} {
		r.rate(vm, pps)
	}
	r.holding(90*time.Second, "vm2", "vm7")
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

// TestPolicies runs the other policies on real VFs: the busy guest gets the VF and the daemon names the policy; vnraf also gives the VF
// its tier.
func TestPolicies(t *testing.T) {
	const config = "mode: enforce\npolicy: %s\ninterval: 5s\n%spfs:\n  - {name: pf0, vfs: 0}\n" +
		"moves: {plug_timeout: 60s, unplug_timeout: 60s}\n"
	r := newRig(t, fmt.Sprintf(config, "adaptive", ""), "vm1", "vm2")
	for i, c := range []struct{ policy, params string }{
		{"adaptive", ""}, {"rentbuy", ""}, {"vnraf", "params: {link_mbit: 1000, vf0_mbit: 100, delta_mbit: 100}\n"}, {"activity", ""},
	} {
		busy, quiet := "vm1", "vm2"
		if i%2 == 1 {
			busy, quiet = quiet, busy
		}
		r.configure(fmt.Sprintf(config, c.policy, c.params))
		r.run("pkill -HUP -x sluiced")
		r.rate(busy, 40)
		r.rate(quiet, 1)
		took := r.holding(90*time.Second, busy)
		r.idle(60 * time.Second)
		r.eventually(30*time.Second, busy+" holds by "+c.policy, func() error {
			e, err := r.client.Explain(r.ctx, busy)
			if err == nil && e.Reason.Policy != c.policy {
				err = fmt.Errorf("it says %q", e.Sentence)
			}
			return err
		})
		t.Logf("%s gave the VF to %s after %s: %s", c.policy, busy, took.Round(100*time.Millisecond), r.explain(busy))
		rate := r.run("ip link show pf0 | grep 'vf 0 '")
		if limited := strings.Contains(rate, "max_tx_rate 100Mbps"); limited != (c.policy == "vnraf") {
			t.Errorf("under %s the kernel says of the VF: %s; want a limit of 100 Mbit/s under vnraf only", c.policy, rate)
		}
	}
	r.reach("vm1")
	r.reach("vm2")
	r.clean()
}
