package uplinktest

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/tap"
	"sluice/internal/model"
)

// TestOrderUnderOpenVSwitch: at a tap that is a port of Open vSwitch's kernel datapath, limits and rules of a switch port come before the
// datapath for what the guest sends, and limits before the tap for what it receives; also after ovs-vswitchd has started again.
func TestOrderUnderOpenVSwitch(t *testing.T) {
	if datapath(t) != "system" {
		t.Skip("in user space frames do not pass programs at taps: the lab has the kernel's datapath")
	}
	o := startOVS(t)
	w, k := worldOf(t), newKernel(t)
	guest, peer := w.tap, w.from[0]
	// send returns how many of some frames arrive at a port, after one that the datapath learns the flow from.
	const frames, limit = 300, 1000
	sent := 0
	send := func(from *kerneltest.Port, to, as model.MAC, at *kerneltest.Port) (got int) {
		t.Helper()
		sent++
		for range frames {
			from.Send(t, kerneltest.Frame(to, as, fmt.Sprint("one of ", sent)))
		}
		for frame := at.Waiting(t); frame != nil; frame = at.Waiting(t) {
			if strings.Contains(string(frame), fmt.Sprint("one of ", sent)) {
				got++
			}
		}
		return got
	}
	learn := func() {
		t.Helper()
		for _, x := range []struct {
			from, at *kerneltest.Port
			to, as   model.MAC
		}{{guest, peer, kerneltest.Other, kerneltest.Guest}, {peer, guest, kerneltest.Guest, kerneltest.Other}} {
			kerneltest.WaitFor(t, "a flow to be in the datapath", func() bool { return send(x.from, x.to, x.as, x.at) == frames })
		}
	}
	police := func(tx, rx uint64) {
		t.Helper()
		_, err := k.UpdateTap(kerneltest.Soon(t), guestTap, func(p *tap.Policy) {
			p.Tx, p.Rx = tap.PathRates{Contract: model.Rate{Packets: tx}}, tap.PathRates{Contract: model.Rate{Packets: rx}}
		})
		kerneltest.Must(t, err)
	}
	dropped := func() (tx, rx int) {
		t.Helper()
		all, err := k.TapPolicies(kerneltest.Soon(t))
		kerneltest.Must(t, err)
		for _, p := range all {
			tx, rx = tx+int(p.TxDropped.Packets), rx+int(p.RxDropped.Packets)
		}
		return tx, rx
	}
	limited := func(when string) {
		t.Helper()
		tx, rx := dropped()
		passed := send(guest, kerneltest.Other, kerneltest.Guest, peer)
		now, _ := dropped()
		if now == tx || passed != frames-(now-tx) {
			t.Errorf("%s: of %d frames the guest's limit dropped %d, and %d passed Open vSwitch", when, frames, now-tx, passed)
		}
		passed = send(peer, kerneltest.Guest, kerneltest.Other, guest)
		_, now = dropped()
		if now == rx || passed != frames-(now-rx) {
			t.Errorf("%s: of %d frames to the guest its limit dropped %d, and %d arrived", when, frames, now-rx, passed)
		}
	}

	learn()
	police(limit, limit)
	limited("limits")

	o.restartSwitch(t)
	police(0, 0)
	learn()
	police(limit, limit)
	limited("after ovs-vswitchd started again")

	police(0, 0)

	// The rules of a switch port judge a frame before Open vSwitch learns from it.
	spoofed := model.MAC{2, 0, 0, 0, 0, 9}
	_, err := k.SetSwitchPort(kerneltest.Soon(t), model.SwitchPort{
		Tap: guestTap, Rules: []model.SwitchRule{{MACs: []model.MAC{kerneltest.Guest}}},
	})
	kerneltest.Must(t, err)
	if got := send(guest, kerneltest.Other, spoofed, peer); got > 0 {
		t.Errorf("%d spoofed frames passed a switch port", got)
	}
	if got := send(guest, kerneltest.Other, kerneltest.Guest, peer); got != frames {
		t.Errorf("%d of the guest's %d frames passed its switch port", got, frames)
	}
	out, err := exec.Command("ovs-appctl", "--timeout=5", "-t", "ovs-vswitchd", "fdb/show", "br0").CombinedOutput()
	if kerneltest.Must(t, err); strings.Contains(string(out), spoofed.String()) {
		t.Errorf("Open vSwitch learned a spoofed address:\n%s", out)
	}
}
