//go:build lab

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/lab/vpflab"
)

// The checklist of Virtual PF, and what a switch must prevent root in the guest from doing.
func TestVirtualPF(t *testing.T) {
	r := newRig(t, "")
	r.must(r.Boot(r.ctx, "peer"))
	outside, err := r.Listen(r.ctx, "ext", "wire0")
	r.must(err)

	for _, f := range r.vpf().Functions {
		if f.VF >= 0 && f.Link != "down" {
			t.Errorf("VF %d has its link %s, and nobody in the guest has it", f.VF, f.Link)
		}
	}
	r.node("sluice-guest doctor") // each VF has a driver, and is found by its PF
	dev := r.node("ls /sys/bus/pci/devices/%s/virtio*/net", r.vfs[3])
	r.node("ip link set %s up", dev)
	r.blocked("a VF that nobody asked for", outside, "", dev, "")

	r.network("net", nil, 0, 1, 2, 3)
	a, b := r.mustAdd("net", "a"), r.mustAdd("net", "b")
	r.reaches("a", b)
	r.reaches("b", a)
	for _, pod := range []string{"a", "b"} {
		r.reaches(pod, "10.9.0.12")  // another VM
		r.reaches(pod, "10.9.0.100") // a machine outside
	}
	if f := r.vf(0); f.Owner == "" || f.Link != "up" || !f.Stands {
		t.Errorf("VF 0, that container a has: %+v", f)
	}

	t.Run("spoof", func(t *testing.T) { r.spoof(t, outside) })
	t.Run("vlan", func(t *testing.T) { r.vlan(t, outside, a, b) })
	t.Run("rate", func(t *testing.T) { r.rate(t, outside) })
	t.Run("isolation", func(t *testing.T) { r.isolation(t) })
	t.Run("policy", func(t *testing.T) { r.policy(t) })

	r.mustDel("net", "a")
	r.mustDel("net", "b")
	r.gone("after DEL")
	r.blocked("a VF that was given back", outside, "", dev, "")

	t.Run("blocked", func(t *testing.T) { r.unblocked(t) })
	t.Run("flood", func(t *testing.T) { r.flood(t) })
	t.Run("kill", func(t *testing.T) { r.killed(t) })
	t.Run("reboot", func(t *testing.T) { r.reboot(t) })
	t.Run("end", func(t *testing.T) { r.end(t) })
}

// as returns r for a subtest.
func (r *rig) as(t *testing.T) *rig {
	c := *r
	c.t = t
	return &c
}

// spoof: MACs and, where asked for, ARP.
func (r *rig) spoof(t *testing.T, outside *vpflab.Listener) {
	r = r.as(t)
	const forged = "02:00:00:00:66:66"
	r.passes("its own MAC", outside, "a", "eth0", "")
	r.blocked("a forged MAC", outside, "a", "eth0", "--src "+forged)
	r.blocked("the MAC of container b", outside, "a", "eth0", "--src "+r.vf(1).MAC)
	r.blocked("the MAC of another VM", outside, "a", "eth0", "--src "+vpflab.Peer.MAC)
	r.eventually(30*time.Second, "the drops are counted", func() error {
		if d := r.vf(0).Drops; d.Spoof < 9 {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
	r.node("ip netns exec a ip link set eth0 address %s", forged)
	r.blocked("a MAC that root in the guest has set", outside, "a", "eth0", "")
	r.node("ip netns exec a ip link set eth0 address %s", r.vf(0).MAC)

	r.set("--vf 0 --mac %s", forged)
	r.passes("a MAC on its list", outside, "a", "eth0", "--src "+forged)
	r.blocked("a MAC that is not on its list", outside, "a", "eth0", "--src 02:00:00:00:66:67")
	r.set("--vf 0 --mac ''")
	r.blocked("a MAC that is on its list no more", outside, "a", "eth0", "--src "+forged)

	r.passes("any ARP, where it is not checked", outside, "a", "eth0", "--arp --sip 10.9.0.1")
	r.set("--vf 0 --check-arp --address 10.9.0.50")
	r.passes("ARP for its own address", outside, "a", "eth0", "--arp --sip 10.9.0.50")
	r.blocked("ARP for the gateway's address", outside, "a", "eth0", "--arp --sip 10.9.0.1")
	r.blocked("ARP for another's MAC", outside, "a", "eth0", "--arp --sip 10.9.0.50 --sha "+forged)
	r.set("--vf 0 --check-arp=false --address ''")

	r.set("--vf 0 --spoof-check=false")
	r.passes("a forged MAC where that is not checked", outside, "a", "eth0", "--src "+forged)
	r.set("--vf 0 --spoof-check=true")
	r.blocked("a forged MAC again", outside, "a", "eth0", "--src "+forged)
}

// vlan: access, trunk, and tags that the guest may not send.
func (r *rig) vlan(t *testing.T, outside *vpflab.Listener, a, b string) {
	r = r.as(t)
	r.blocked("a tag, where there is no VLAN", outside, "a", "eth0", "--vlan 10")
	r.set("--vf 0 --vlan 10")
	mark := r.passes("an access port", outside, "a", "eth0", "")
	all, err := outside.All()
	r.must(err)
	for _, f := range all {
		if f.Mark == mark && f.VLAN != 10 {
			t.Errorf("outside, the frames of an access port have the tag %d, want 10", f.VLAN)
		}
	}
	r.blocked("a tag of an access port's guest", outside, "a", "eth0", "--vlan 11")
	r.unreachable("a", b)
	r.set("--vf 1 --vlan 10")
	r.reaches("a", b)
	r.reaches("b", a)
	r.set("--vf 1 --vlan 11")
	r.unreachable("a", b)
	r.set("--vf 0 --vlan 0 --trunk 12-13")
	r.passes("a tag of the trunk", outside, "a", "eth0", "--vlan 12")
	r.blocked("a tag that is not of the trunk", outside, "a", "eth0", "--vlan 14")
	r.set("--vf 0 --trunk ''")
	r.set("--vf 1 --vlan 0")
	r.reaches("a", b)
}

// unreachable checks that three pings get no answer.
func (r *rig) unreachable(pod, address string) {
	r.t.Helper()
	r.node("ip -n %s neigh flush all", pod)
	if out, err := r.GuestExec(r.ctx, "node", fmt.Sprintf("ip netns exec %s ping -c 3 -i 0.3 -W 2 %s", pod, address)); err == nil {
		r.t.Errorf("%s reaches %s: %s", pod, address, out)
	}
}

// rate: limits of sent packets and bits.
func (r *rig) rate(t *testing.T, outside *vpflab.Listener) {
	r = r.as(t)
	for _, limit := range []struct {
		text string
		size int
		most float64 // frames a second
	}{
		{"100pps", 100, 100},
		{"1Mbit", 1400, 1e6 / (1400 * 8)},
	} {
		r.set("--vf 0 --limit %s", limit.text)
		r.limited()
		const count = 3000 // over three seconds, ten times what may pass
		mark := r.send("a", "eth0", fmt.Sprintf("--count %d --pps 1000 --size %d", count, limit.size))
		r.fence(outside)
		all, err := outside.All()
		r.must(err)
		for _, f := range all {
			if f.Mark != mark {
				continue
			}
			seconds := time.Duration(f.LastNs - f.FirstNs).Seconds()
			// A meter lets a burst of a fraction of a second through.
			allowed := limit.most*(seconds*1.1+0.5) + 50
			t.Logf("limit %s: %d of %d frames in %.1f s", limit.text, f.Frames, count, seconds)
			if float64(f.Frames) > allowed {
				t.Errorf("limit %s: %d of %d frames passed in %.1f s, want %.0f at most", limit.text, f.Frames, count, seconds, allowed)
			}
		}
		if n, _ := outside.Count(mark); n == 0 {
			t.Errorf("limit %s: nothing passed", limit.text)
		}
	}
	r.set("--vf 0 --limit ''")
	r.eventually(time.Minute, "no limit any more", func() error {
		mark := r.send("a", "eth0", "--count 500")
		r.fence(outside)
		return arrived(outside, mark, 400)
	})
}

// limited waits until the host drops what VF 0 sends above its limit, which the bandwidth controller sets.
func (r *rig) limited() {
	r.t.Helper()
	before := r.vf(0).Drops.Rate
	r.eventually(time.Minute, "the limit holds", func() error {
		r.send("a", "eth0", "--count 1000")
		if now := r.vf(0).Drops.Rate; now <= before {
			return fmt.Errorf("%d frames were dropped for their rate, as many as before", now)
		}
		return nil
	})
}

// isolation: two isolated VFs do not reach each other, and both reach the rest.
func (r *rig) isolation(t *testing.T) {
	r = r.as(t)
	b := r.node("ip -n b -4 -o addr show eth0 | awk '{print $4}' | cut -d/ -f1")
	r.set("--vf 0 --vf 1 --isolated")
	r.unreachable("a", b)
	r.reaches("a", "10.9.0.100")
	r.reaches("b", "10.9.0.12")
	r.set("--vf 0 --vf 1 --isolated=false")
	r.reaches("a", b)
}

// policy: requests of a guest are limited to what the host allows.
func (r *rig) policy(t *testing.T) {
	r = r.as(t)
	for name, more := range map[string]map[string]any{
		"vlan":  {"vlan": 30},
		"mac":   {"mac": "52:54:00:00:01:02"},
		"spoof": {"spoofchk": "off"},
	} {
		r.network(name, more, 2)
		if out, err := r.add(name, "refused"); err == nil {
			t.Errorf("ADD with %v succeeded, which host policy forbids: %s", more, out)
		}
		if f := r.vf(2); f.Owner != "" || f.Link != "down" {
			t.Errorf("VF 2 after an ADD with %v that was refused: owner %q, link %s", more, f.Owner, f.Link)
		}
		r.node("ip netns del refused")
	}
	r.network("allowed", map[string]any{"vlan": 15, "mac": "02:00:00:00:00:15"}, 2)
	r.mustAdd("allowed", "c")
	if f := r.vf(2); f.Policy.VLAN != 15 || f.Link != "up" {
		t.Errorf("VF 2 after an ADD with VLAN 15: %+v", f)
	}
	if got := r.node("ip netns exec c cat /sys/class/net/eth0/address"); got != "02:00:00:00:00:15" {
		t.Errorf("container c has the MAC %s", got)
	}
	r.mustDel("allowed", "c")
}

// gone checks that nobody has a VF, and that no link is up.
func (r *rig) gone(when string) {
	r.t.Helper()
	r.eventually(time.Minute, "no VF in use "+when, func() error {
		for _, f := range r.vpf().Functions {
			if f.VF >= 0 && (f.Owner != "" || f.Link != "down") {
				return fmt.Errorf("VF %d: owner %q, link %s", f.VF, f.Owner, f.Link)
			}
		}
		return nil
	})
}

// stopGuest ends sluice-guest in the guest.
func (r *rig) stopGuest() {
	r.t.Helper()
	r.node("if p=$(cat /run/sluice-guest.pid); then kill $p; while [ -e /proc/$p ]; do sleep 0.1; done; rm /run/sluice-guest.pid; fi")
}

// stopFlood ends a flood.
func (r *rig) stopFlood() {
	r.t.Helper()
	r.node("p=$(cat /run/flood.pid); kill -9 $p; while [ -e /proc/$p ]; do sleep 0.1; done")
}

// unblocked: QEMU blocks a port whose host and guest end while data is on the way. The next daemon receives nothing on it, and opens it once
// more.
func (r *rig) unblocked(t *testing.T) {
	r = r.as(t)
	r.stopGuest()
	r.must(r.GuestStart(r.ctx, "node", "flood", "cat /dev/zero >/dev/virtio-ports/org.sluice.0"))
	r.eventually(time.Minute, "a full queue", func() error {
		_, err := r.GuestExec(r.ctx, "node", "grep -q wait_port_writable /proc/$(cat /run/flood.pid)/wchan")
		return err
	})
	r.stopFlood()
	r.kill()
	r.start()
	r.must(r.GuestStart(r.ctx, "node", "sluice-guest", "sluice-guest run"))
	r.eventually(2*time.Minute, "sluice-guest reaches the new daemon", func() error {
		_, err := r.GuestExec(r.ctx, "node", "sluice-guest doctor")
		return err
	})
}

// flood: root in the guest replaces sluice-guest and sends garbage and requests as fast as the port accepts them. Meanwhile the daemon
// answers others, does not grow and grants nothing, and afterwards it serves sluice-guest again.
func (r *rig) flood(t *testing.T) {
	r = r.as(t)
	for what, source := range map[string]string{
		"garbage":  "cat /dev/urandom",
		"zeros":    "cat /dev/zero", // a line without an end
		"requests": `yes '{"v":1,"id":7,"method":"attach","body":{"vf":{"pf":"` + vpflab.Peer.MAC + `","index":0},"owner":"x/y"}}'`,
		"answers":  `yes '{"v":1,"id":7,"body":{}}'`,
	} {
		for try := 1; !r.flooded(what, source); try++ {
			if try == 3 {
				t.Fatalf("%s: the guest's emulator crashed each time", what)
			}
			t.Logf("%s: the guest's emulator crashed: again", what)
			r.must(r.Boot(r.ctx, "node"))
			r.prepare()
			r.network("net", nil, 0, 1, 2, 3) // its disk may lack it
		}
	}
	r.gone("after floods")
	r.must(r.GuestStart(r.ctx, "node", "sluice-guest", "sluice-guest run"))
	r.eventually(3*time.Minute, "sluice-guest reaches the daemon again", func() error {
		_, err := r.GuestExec(r.ctx, "node", "sluice-guest doctor")
		return err
	})
	r.mustAdd("net", "f")
	r.mustDel("net", "f")
}

// flooded floods the daemon from one source for 5 s. It returns false if QEMU died of a fault of its own, as its emulation of a CPU
// without KVM does at times.
func (r *rig) flooded(what, source string) bool {
	const most = 64 << 10 // KiB of memory
	r.stopGuest()
	r.must(r.GuestStart(r.ctx, "node", "flood", source+" >/dev/virtio-ports/org.sluice.0"))
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); {
		begun := time.Now()
		if _, err := r.client.VirtualPFs(r.ctx); err != nil || time.Since(begun) > 10*time.Second {
			r.t.Fatalf("%s: the daemon answers after %v: %v", what, time.Since(begun), err)
		}
		time.Sleep(100 * time.Millisecond) // between two questions
	}
	if strings.Contains(r.host("virsh domstate --reason node"), "crashed") {
		return false
	}
	r.stopFlood()
	var used int
	if _, err := fmt.Sscan(r.host("awk '/VmRSS/ {print $2}' /proc/$(pgrep -x sluiced)/status"), &used); err != nil || used > most {
		r.t.Errorf("%s: the daemon uses %d KiB, want at most %d: %v", what, used, most, err)
	}
	return true
}

// killed: SIGKILL to the daemon at many points of ADD and DEL. Whatever those return, DEL cleans up.
func (r *rig) killed(t *testing.T) {
	r = r.as(t)
	for i := range 6 {
		delay := time.Duration(i) * 120 * time.Millisecond
		r.connected()
		done := make(chan error, 1)
		go func() {
			_, err := r.add("net", "k")
			done <- err
		}()
		time.Sleep(delay) // any moment will do
		r.kill()
		r.start()
		err := <-done
		t.Logf("ADD with the daemon killed after %v: %v", delay, err)
		if err == nil {
			r.stands()
			r.reaches("k", "10.9.0.100")
		}
		r.connected()
		go func() { done <- r.del("net", "k") }()
		time.Sleep(delay)
		r.kill()
		r.start()
		if err := <-done; err != nil {
			t.Logf("DEL with the daemon killed after %v: %v", delay, err)
			r.eventually(time.Minute, "another DEL", func() error { return r.del("net", "k") })
		}
		r.gone("after DEL")
	}
	r.connected()
}

// reboot: grants to containers do not survive a reboot of the guest.
func (r *rig) reboot(t *testing.T) {
	sub := r.as(t)
	sub.mustAdd("net", "a")
	boot, err := sub.BootID(sub.ctx, "node")
	sub.must(err)
	// The answer may be lost with the guest.
	_, _ = sub.GuestExec(sub.ctx, "node", "sync; echo 1 >/proc/sys/kernel/sysrq; (sleep 1; echo b >/proc/sysrq-trigger) &")
	sub.must(sub.AwaitBoot(sub.ctx, "node", boot))
	sub.prepare()
	r.pf, r.vfs = sub.pf, sub.vfs
	sub.gone("after a reboot")
	sub.network("net", nil, 0, 1, 2, 3)
	sub.mustAdd("net", "fresh")
	sub.reaches("fresh", "10.9.0.100")
	sub.mustDel("net", "fresh")
	sub.node("ip netns add a") // for cnitool, which opens it
	sub.mustDel("net", "a")    // as a runtime does with what it had before
}

// end: no VFs in the guest, no VM, no virtual PF; then there is nothing left of it.
func (r *rig) end(t *testing.T) {
	r = r.as(t)
	r.mustAdd("net", "a")
	r.node("echo 0 >/sys/bus/pci/devices/%s/sriov_numvfs", r.pf)
	r.must(r.del("net", "a")) // its VF has gone
	r.gone("after sriov_numvfs is 0")
	r.host("virsh destroy node")
	r.eventually(time.Minute, "no taps and no programs", func() error {
		return r.nothing("vnet")
	})
	r.eventually(time.Minute, "fsck finds nothing", func() error {
		f, err := r.client.Fsck(r.ctx)
		if err == nil && len(f.Findings) > 0 {
			err = fmt.Errorf("%v", f.Findings)
		}
		return err
	})
	r.eventually(time.Minute, "undefine, as soon as the daemon has seen the VM's end", func() error {
		_, err := r.Run(r.ctx, "sluice vpf undefine node")
		return err
	})
	if xml := r.host("virsh dumpxml node --inactive"); strings.Contains(xml, "vpf") || strings.Contains(xml, "sriov") {
		t.Errorf("after undefine, the VM's XML has: %s", xml)
	}
}

// nothing fails if the host has a tap or a pin of a VM that is off.
func (r *rig) nothing(tap string) error {
	out, err := r.Run(r.ctx, "ip -br link; find /sys/fs/bpf -mindepth 1")
	if err != nil {
		return err
	}
	for _, line := range strings.Split(out, "\n") {
		if strings.HasPrefix(line, tap) || strings.Contains(line, "switch") {
			return fmt.Errorf("left: %s", line)
		}
	}
	return nil
}
