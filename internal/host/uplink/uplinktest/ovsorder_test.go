package uplinktest

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"sluice/internal/host/kernel"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/tap"
	"sluice/internal/host/uplink/ovstest"
	"sluice/internal/model"
)

// TestOrderUnderOpenVSwitch: at a tap that is a port of Open vSwitch's kernel datapath, limits and rules of a switch port come before the
// datapath for what the guest sends, and limits before the tap and before copies for what it receives; also after ovs-vswitchd has started
// again.
func TestOrderUnderOpenVSwitch(t *testing.T) {
	if ovstest.Datapath(t) != "system" {
		t.Skip("in user space frames do not pass programs at taps: the lab has the kernel's datapath")
	}
	o := ovstest.Start(t)
	w := worldOf(t)
	c := &counted{t: t, k: newKernel(t), world: w}
	guest, peer := w.tap, w.from[0]
	limited := func(when string) {
		t.Helper()
		tx, rx := c.dropped()
		passed := c.send(guest, kerneltest.Other, kerneltest.Guest, peer)[0]
		now, _ := c.dropped()
		if now == tx || passed != countedFrames-(now-tx) {
			t.Errorf("%s: of %d frames the guest's limit dropped %d, and %d passed Open vSwitch", when, countedFrames, now-tx, passed)
		}
		passed = c.send(peer, kerneltest.Guest, kerneltest.Other, guest)[0]
		_, now = c.dropped()
		if now == rx || passed != countedFrames-(now-rx) {
			t.Errorf("%s: of %d frames to the guest its limit dropped %d, and %d arrived", when, countedFrames, now-rx, passed)
		}
	}

	const limit = 1000
	c.learn()
	c.police(limit, limit)
	limited("limits")

	restartSwitch(t, o)
	c.police(0, 0)
	c.learn()
	c.police(limit, limit)
	limited("after ovs-vswitchd started again")
	c.police(0, 0)
	c.copiesWhatPasses(limit)
	c.learn()

	// The rules of a switch port judge a frame before Open vSwitch learns from it.
	spoofed := model.MAC{2, 0, 0, 0, 0, 9}
	_, err := c.k.SetSwitchPort(kerneltest.Soon(t), model.SwitchPort{
		Tap: guestTap, Rules: []model.SwitchRule{{MACs: []model.MAC{kerneltest.Guest}}},
	})
	kerneltest.Must(t, err)
	if got := c.send(guest, kerneltest.Other, spoofed, peer)[0]; got > 0 {
		t.Errorf("%d spoofed frames passed a switch port", got)
	}
	if got := c.send(guest, kerneltest.Other, kerneltest.Guest, peer)[0]; got != countedFrames {
		t.Errorf("%d of the guest's %d frames passed its switch port", got, countedFrames)
	}
	out, err := exec.Command("ovs-appctl", "--timeout=5", "-t", "ovs-vswitchd", "fdb/show", "br0").CombinedOutput()
	if kerneltest.Must(t, err); strings.Contains(string(out), spoofed.String()) {
		t.Errorf("Open vSwitch learned a spoofed address:\n%s", out)
	}
}

// TestCopiesUnderALinuxBridge: the same of copies at a tap of a Linux bridge.
func TestCopiesUnderALinuxBridge(t *testing.T) {
	c := &counted{t: t, k: newKernel(t), world: bridgeWorld(t)}
	c.learn()
	c.copiesWhatPasses(1000)
}

// counted is a switch at which a test counts what arrives of the frames that it sends.
type counted struct {
	t     *testing.T
	k     *kernel.Host
	world world
	sent  int
}

const countedFrames = 300

// send returns how many of some frames arrive at each of these ports. Frames that a switch has sent there before do not fill their queues.
func (c *counted) send(from *kerneltest.Port, to, as model.MAC, at ...*kerneltest.Port) (got []int) {
	c.t.Helper()
	c.sent++
	mark := fmt.Sprintf("one of %d.", c.sent)
	for _, p := range at {
		for p.Waiting(c.t) != nil {
		}
	}
	for range countedFrames {
		from.Send(c.t, kerneltest.Frame(to, as, mark))
	}
	for _, p := range at {
		n := 0
		for frame := p.Waiting(c.t); frame != nil; frame = p.Waiting(c.t) {
			if strings.Contains(string(frame), mark) {
				n++
			}
		}
		got = append(got, n)
	}
	return got
}

// learn sends until the switch passes every frame between the guest and its peer at once.
func (c *counted) learn() {
	c.t.Helper()
	guest, peer := c.world.tap, c.world.from[0]
	for _, x := range []struct {
		from, at *kerneltest.Port
		to, as   model.MAC
	}{{guest, peer, kerneltest.Other, kerneltest.Guest}, {peer, guest, kerneltest.Guest, kerneltest.Other}} {
		kerneltest.WaitFor(c.t, "the switch to pass all frames at once", func() bool { return c.send(x.from, x.to, x.as, x.at)[0] == countedFrames })
	}
}

// police limits what the guest sends and receives, in packets/s; 0: no limit.
func (c *counted) police(tx, rx uint64) {
	c.t.Helper()
	_, err := c.k.UpdateTap(kerneltest.Soon(c.t), guestTap, func(p *tap.Policy) {
		p.Tx, p.Rx = tap.PathRates{Contract: model.Rate{Packets: tx}}, tap.PathRates{Contract: model.Rate{Packets: rx}}
	})
	kerneltest.Must(c.t, err)
}

// dropped returns how many frames limits have dropped.
func (c *counted) dropped() (tx, rx int) {
	c.t.Helper()
	all, err := c.k.TapPolicies(kerneltest.Soon(c.t))
	kerneltest.Must(c.t, err)
	for _, p := range all {
		tx, rx = tx+int(p.TxDropped.Packets), rx+int(p.RxDropped.Packets)
	}
	return tx, rx
}

// copiesWhatPasses fails the test unless a dual path copies what reaches the tap, and not what a limit has dropped.
func (c *counted) copiesWhatPasses(limit uint64) {
	t, w := c.t, c.world
	t.Helper()
	p := w.step(t, guestTap, kerneltest.Guest)
	kerneltest.Must(t, w.toBoth(kerneltest.Soon(t), p))
	send := func() (atTap, copies int) {
		got := c.send(w.from[0], kerneltest.Guest, kerneltest.Other, w.tap, w.vf)
		return got[0], got[1]
	}
	kerneltest.WaitFor(t, "the switch to pass all frames at once, and copies of them", func() bool {
		atTap, copies := send()
		return atTap == countedFrames && copies == countedFrames
	})
	c.police(0, limit)
	_, rx := c.dropped()
	atTap, copies := send()
	_, now := c.dropped()
	if passed := countedFrames - (now - rx); now == rx || atTap != passed || copies != passed {
		t.Errorf("of %d frames to the guest its limit dropped %d; %d arrived, and %d copies", countedFrames, now-rx, atTap, copies)
	}
	c.police(0, 0)
	kerneltest.Must(t, w.ToOne(kerneltest.Soon(t), p))
}
