//go:build lab

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/lab"
)

const qualifyConfig = `mode: enforce
policy: none
interval: 5s
pfs:
  - {name: pf0, vfs: 0-6}
moves: {plug_timeout: 60s, unplug_timeout: 60s}
`

// worldOfPF shows everything that qualify may change, as the host's tools report it, including the VF that a VM holds.
const worldOfPF = `ip link show pf0 | sed 's/link-state.*//'
bridge fdb show dev pf0 | sort
for vf in /sys/class/net/pf0/device/virtfn*; do echo $(basename $vf) $(basename $(readlink $vf/driver)) $(cat $vf/driver_override); done`

// TestQualify runs qualify beside a working daemon that has given a VF to a guest. qualify determines the capabilities of the emulated
// NIC and what the moves of another guest cost; it leaves the guest's VF alone and everything else as it was, even if it is killed halfway.
func TestQualify(t *testing.T) {
	r := newRig(t, qualifyConfig, "vm1", "vm2")
	r.run("modprobe igbvf")
	_, err := r.client.Do(r.ctx, api.VerbPin, api.Request{VM: "vm1"})
	r.must(err)
	r.holding(90*time.Second, "vm1")
	r.idle(60 * time.Second)
	before := r.run(worldOfPF)

	q := r.qualify()
	r.judge(&q)
	r.costs(&q)
	r.same(before)
	if now, err := r.holders(); err != nil || len(now) != 1 {
		t.Errorf("VMs with a VF: %v, %v", now, err)
	}
	r.reach("vm1")
	r.run("sluice reload")
	if d := r.run("sluice doctor || true"); !strings.Contains(d, "max_tx_rate is enforced: no, by measurement") {
		t.Errorf("doctor says\n%s", d)
	}
	r.killHalfway(before)
	r.clean()
}

// judge checks the result against what is known of QEMU's igb.
func (r *rig) judge(q *api.Qualification) {
	r.t.Helper()
	got := map[string]api.Claim{}
	for _, c := range q.Claims {
		got[c.Code] = c
		r.t.Logf("%-12s %-8s %s", c.Code, c.Measured, c.Evidence)
	}
	for _, x := range q.Times {
		r.t.Logf("%-8s median %.4f s, worst %.4f s of %d", x.Name, x.Median, x.Worst, x.Count)
	}
	for code, want := range map[string]string{
		api.ClaimMaxTxRate: "no", api.ClaimMinTxRate: "no", api.ClaimVFCounters: "no", api.ClaimPFFilters: "yes", api.ClaimSelfFDB: "yes",
		api.ClaimVFToPF: "yes", api.ClaimPFToVF: "yes", api.ClaimVFToVF: "yes",
	} {
		if got[code].Measured != want {
			r.t.Errorf("%s: %q (%s), want %q", code, got[code].Measured, got[code].Evidence, want)
		}
	}
	if n := got[api.ClaimPFFilters].Number; n != 16 {
		r.t.Errorf("the PF takes %d filters, want the 82576's 24 less its own address and seven VFs'", n)
	}
	if !q.Hardware.Emulated || len(q.Notes) == 0 {
		r.t.Errorf("it does not say that the NIC is emulated: %+v", q.Hardware)
	}
	if len(q.Failed)+len(q.Left) > 0 || len(q.VFs) != 2 {
		r.t.Errorf("failed %q, left %q, VFs %q", q.Failed, q.Left, q.VFs)
	}
	for _, name := range []string{
		api.TimeUnbind, api.TimeBind, api.TimeLink, api.TimePlug, api.TimeAttach, api.TimeGuest, api.TimeUnplug, api.TimeDetach,
	} {
		if !slices.ContainsFunc(q.Times, func(x api.Timing) bool { return x.Name == name && x.Count > 0 }) {
			r.t.Errorf("no time of %s", name)
		}
	}
}

// qualify returns what it saved, with vm2 moved, and logs the report as text; docs/qualify.md has a claim of it.
func (r *rig) qualify() (saved api.Qualification) {
	r.t.Helper()
	r.run("ping -c 1 -W 5 %s", lab.Address("vm2"))
	text := r.run("sluice qualify pf0 --vm vm2 --save 2>/dev/null")
	r.t.Log("\n" + text)
	for _, want := range []string{
		"emulated by QEMU", "4 moves of vm2 lost", "BOOST", "FlexVF's figure 5", "the whole move to a VF", "hot-plug into the VM",
		"Everything has been restored",
	} {
		if !strings.Contains(text, want) {
			r.t.Errorf("the report lacks %q", want)
		}
	}
	if strings.Contains(text, "not measured:") {
		r.t.Error("something was not measured")
	}
	r.must(json.Unmarshal([]byte(r.run("cat /var/lib/sluice/qualify/pf0.json")), &saved))
	return saved
}

// costs checks what packets and moves were measured to cost.
func (r *rig) costs(q *api.Qualification) {
	r.t.Helper()
	if len(q.Paths) != 5 || q.Moves == nil || q.Moves.Moves != 4 {
		r.t.Errorf("%d sizes, moves %+v", len(q.Paths), q.Moves)
	}
	for _, p := range q.Paths {
		// QEMU or vhost handles each packet on virtio, which takes more than nothing and less than a second.
		if cpu := p.Virtio.HostCPU; cpu == nil || *cpu < 100e-9 || *cpu > 0.1 || p.VF.HostCPU == nil {
			r.t.Errorf("%d bytes: the host's CPU on virtio %v, on the VF %v", p.Size, show(cpu), show(p.VF.HostCPU))
		}
	}
	r.t.Logf("what virtio costs more than the VF: %+v", q.HostCPU)
}

func show(x *float64) string {
	if x == nil {
		return "not measured"
	}
	return fmt.Sprint(*x)
}

// same waits until the host is in the same state as before.
func (r *rig) same(before string) {
	r.t.Helper()
	r.eventually(20*time.Second, "everything is as it was", func() error {
		if now := r.run(worldOfPF); now != before {
			return fmt.Errorf("it was\n%s\nand is\n%s", before, now)
		}
		return nil
	})
}

// killHalfway kills qualify while VFs are bound to the host's driver. They stay reserved until they are restored.
func (r *rig) killHalfway(before string) {
	r.t.Helper()
	p, err := r.Start(r.ctx, "exec sluiced --qualify pf0")
	r.must(err)
	r.eventually(60*time.Second, "test frames are sent", func() error {
		out, err := p.Output()
		if err == nil && !strings.Contains(out, "sending test frames") {
			err = errNotYet
		}
		return err
	})
	r.must(p.Signal(r.ctx, "KILL"))
	r.eventually(30*time.Second, "fsck finds what is left, and the VFs are nobody's", func() error {
		f := r.run("sluice fsck || true")
		vfs := r.run("sluice vfs")
		if !strings.Contains(f, "left-qualify") || strings.Count(vfs, "set aside") != 2 {
			return fmt.Errorf("%s\n%s", f, vfs)
		}
		return nil
	})
	r.t.Log(r.run("sluice qualify --restore"))
	r.same(before)
}
