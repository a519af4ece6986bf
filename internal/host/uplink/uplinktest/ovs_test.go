package uplinktest

import (
	"log/slog"
	"os/exec"
	"strings"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink/ovs"
	"sluice/internal/host/uplink/ovstest"
)

// restartSwitch kills ovs-vswitchd and starts it, and waits until it has the taps again and goes by its tables.
func restartSwitch(t *testing.T, h *ovstest.Host) {
	ovstest.Kill(h.Switch)
	h.StartSwitch(t)
	kerneltest.WaitFor(t, "the ports to be there again", func() bool {
		out, err := exec.Command("ovs-appctl", "--timeout=5", "-t", "ovs-vswitchd", "dpif/show").CombinedOutput()
		return err == nil && strings.Contains(string(out), guestTap) && strings.Contains(string(out), otherTap)
	})
	goesByTables(t)
}

// ovsWorld is Open vSwitch. Frames that leave its pf0 are those that a NIC would pass to the VF.
func ovsWorld(t *testing.T) world {
	ovstest.Start(t)
	return worldOf(t)
}

// worldOf has pf0 and the taps in the bridge br0 of the Open vSwitch that runs.
func worldOf(t *testing.T) world {
	lan := kerneltest.LAN{
		PF: kerneltest.NewPort(t, "pf0", ""), Tap: kerneltest.NewPort(t, guestTap, ""), Peer: kerneltest.NewPort(t, otherTap, ""),
	}
	for _, p := range []*kerneltest.Port{lan.PF, lan.Tap, lan.Peer} {
		ovstest.VSCtl(t, "add-port", "br0", p.Name)
	}
	k := newKernel(t)
	s := ovs.New(kerneltest.Soon(t), k, slog.New(slog.DiscardHandler))
	s.AllowUserspace()
	t.Cleanup(s.Close)
	w := realWorld(t, k, s, lan, lan.PF, func(t *testing.T, port string) {
		ovstest.VSCtl(t, "add-port", "br0", port)
		kerneltest.WaitFor(t, "the database to tell of "+port, func() bool {
			_, ok := s.Tap(nil, &netdev.Link{Name: port})
			return ok
		})
	})
	w.learns = true
	w.change = func(t *testing.T) { ovstest.VSCtl(t, "set", "port", guestTap, "tag=7") }
	return w
}
