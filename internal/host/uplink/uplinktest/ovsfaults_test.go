package uplinktest

import (
	"os/exec"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
)

// TestOVSRestarts: a guest on its VF stays reachable while ovs-vswitchd is gone and back with empty tables, and the topology is known while
// the database is gone, and followed again when it is back.
func TestOVSRestarts(t *testing.T) {
	o := startOVS(t)
	w := worldOf(t)
	p := w.step(t, guestTap, kerneltest.Guest)
	kerneltest.Must(t, w.toBoth(kerneltest.Soon(t), p))
	kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), p))
	kerneltest.Must(t, w.ToOne(kerneltest.Soon(t), p))

	o.restartSwitch(t)
	if got := w.routes(t, p.MAC); len(got) > 0 {
		t.Errorf("the route to %v is not reported as incomplete", got)
	}
	kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), p)) // as the repair does
	if tap, vf := w.reach(t); tap || !vf || len(w.routes(t, p.MAC)) != 1 {
		t.Errorf("after ovs-vswitchd restarted: at the tap %v, at the VF %v", tap, vf)
	}

	kill(o.database)
	kerneltest.Must(t, w.ToTap(kerneltest.Soon(t), p))
	if up, _, ok := w.find(t, "pf0"); !ok || up.Why != "" {
		t.Errorf("without the database: %+v, %v", up, ok)
	}
	o.startDatabase(t)
	kerneltest.NewPort(t, "tap5", "")
	kerneltest.WaitFor(t, "the database", func() bool {
		return exec.Command("ovs-vsctl", "--db="+o.socket(), "--timeout=5", "--may-exist", "add-port", "br0", "tap5", "tag=9").Run() == nil
	})
	kerneltest.WaitFor(t, "the new port to be known", func() bool {
		at, ok := w.Tap(nil, &netdev.Link{Name: "tap5"})
		return ok && at == uplink.Port{Switch: "br0", VLAN: 9, Up: true}
	})
	if tap, _ := w.reach(t); !tap {
		t.Error("after the database came back, the guest is not reached at its tap")
	}
}
