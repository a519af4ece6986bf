package uplinktest

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/host/uplink/ovstest"
)

// TestOVSRestarts: a guest on its VF stays reachable while ovs-vswitchd is gone and back with empty tables, and the topology is known while
// the database is gone, and followed again when it is back.
func TestOVSRestarts(t *testing.T) {
	o := ovstest.Start(t)
	w := worldOf(t)
	p := w.step(t, guestTap, kerneltest.Guest)
	kerneltest.Must(t, w.toBoth(kerneltest.Soon(t), p))
	kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), p))
	kerneltest.Must(t, w.ToOne(kerneltest.Soon(t), p))

	restartSwitch(t, o)
	if got := w.routes(t, p.MAC); len(got) > 0 {
		t.Errorf("the route to %v is not reported as incomplete", got)
	}
	kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), p)) // as the repair does
	if tap, vf := w.reach(t); tap || !vf || len(w.routes(t, p.MAC)) != 1 {
		t.Errorf("after ovs-vswitchd restarted: at the tap %v, at the VF %v", tap, vf)
	}

	ovstest.Kill(o.Database)
	kerneltest.Must(t, w.ToTap(kerneltest.Soon(t), p))
	if up, _, ok := w.find(t, "pf0"); !ok || up.Why != "" {
		t.Errorf("without the database: %+v, %v", up, ok)
	}
	o.StartDatabase(t)
	kerneltest.NewPort(t, "tap5", "")
	kerneltest.WaitFor(t, "the database", func() bool {
		return exec.Command("ovs-vsctl", "--db="+o.Socket("db"), "--timeout=5", "--may-exist", "add-port", "br0", "tap5", "tag=9").Run() == nil
	})
	kerneltest.WaitFor(t, "the new port to be known", func() bool {
		at, ok := w.Tap(nil, &netdev.Link{Name: "tap5"})
		return ok && at == uplink.Port{Switch: "br0", VLAN: 9, Up: true}
	})
	if tap, _ := w.reach(t); !tap {
		t.Error("after the database came back, the guest is not reached at its tap")
	}
}

// TestTagChangesUnderAVF: when somebody gives the port of a guest that is on its VF another tag, the VF follows into that VLAN, the guest is
// reached there from ports of that VLAN only, once the switch has gone through the flows that it had, and it comes back to its tap.
func TestTagChangesUnderAVF(t *testing.T) {
	s := newSite(t, ovsWorld(t))
	s.pinned = true
	s.settle("at first", true)
	for _, tag := range []int{7, 9, 0} {
		set := func(port string) {
			if tag == 0 {
				ovstest.VSCtl(t, "clear", "port", port, "tag")
				return
			}
			ovstest.VSCtl(t, "set", "port", port, fmt.Sprintf("tag=%d", tag))
		}
		set(guestTap)
		s.until(fmt.Sprintf("the VF is in VLAN %d", tag), func() bool { return s.vfs[0].VLAN == tag })
		goesByTables(t)
		if s.leaksInto(tag) {
			t.Errorf("tag %d: the guest receives from a port in another VLAN", tag)
		}
		set(otherTap)
		goesByTables(t)
		if s.settle(fmt.Sprintf("tag %d", tag), true); s.tag != tag {
			t.Errorf("tag %d: what leaves by the PF carries VLAN %d", tag, s.tag)
		}
		if table, n := guestEntries(t); n != 1 {
			t.Errorf("tag %d: %d fixed entries for the guest:\n%s", tag, n, table)
		}
	}
	s.pinned = false
	s.settle("back at its tap", false)
	if s.vfs[0].VLAN != 0 {
		t.Errorf("its VF keeps VLAN %d", s.vfs[0].VLAN)
	}
}

// goesByTables waits until the switch forwards no frame by what its tables were before. A round that ends may have begun before.
func goesByTables(t *testing.T) {
	t.Helper()
	for range 2 {
		ovstest.Tool(t, "ovs-appctl", "--timeout=60", "-t", "ovs-vswitchd", "revalidator/wait")
	}
}

// leaksInto reports whether frames for the guest from the other port, which is in another VLAN, leave by the PF in that VLAN. (In its own
// they may, as do all that the switch has not learned.) Broadcasts behind each frame show when the switch has dealt with it; the first
// frame may yet be overtaken, as the switch has no flow for it, and not the others.
func (s *site) leaksInto(vlan int) (leaks bool) {
	from, at := s.world.from[0], s.world.vf
	for range 3 {
		s.number++
		frame := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, fmt.Sprint("from another VLAN ", s.number))
		from.Send(s.t, frame)
		for n := range 2 { // a switch in user space sends several frames at once, port by port
			last := kerneltest.Frame(kerneltest.Broadcast, kerneltest.Other, fmt.Sprint("last ", s.number, " ", n))
			from.Send(s.t, last)
			for got := []byte(nil); string(got) != string(last); {
				var in int
				in, got = untagged(at.Next(s.t))
				leaks = leaks || in == vlan && string(got) == string(frame)
			}
		}
	}
	return leaks
}

// guestEntries returns the switch's table, and the number of fixed entries for the guest.
func guestEntries(t *testing.T) (table string, n int) {
	t.Helper()
	out, err := exec.Command("ovs-appctl", "--timeout=5", "-t", "ovs-vswitchd", "fdb/show", "br0").CombinedOutput()
	kerneltest.Must(t, err)
	return string(out), strings.Count(string(out), kerneltest.Guest.String()+"  static")
}

// until runs the daemon until something is so.
func (s *site) until(what string, is func() bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); s.now = s.now.Add(10 * time.Minute) {
		snap := s.run(wanted(s.pinned))
		if time.Now().After(end) {
			s.t.Fatalf("%s: it never is: %+v, findings %+v", what, snap.VMs, s.core.View().Findings)
		}
	}
}
