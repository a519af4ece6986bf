package mirror

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
)

// apartLAN is a LAN whose PF is not itself a port of the bridge.
func apartLAN(t *testing.T) kerneltest.LAN {
	kerneltest.NewBridge(t, "br0")
	return kerneltest.LAN{
		PF:   kerneltest.NewPort(t, "pf0", ""),
		Tap:  kerneltest.NewPort(t, "tap0", "br0"),
		Peer: kerneltest.NewPort(t, "tap1", "br0"),
	}
}

// bondedLAN is a LAN whose PF is the active port of a bond that is a bridge port. It is nil, which is logged, if the kernel has
// no bonds.
func bondedLAN(t *testing.T) *kerneltest.LAN {
	add := exec.Command("ip", strings.Fields("link add bond0 type bond mode active-backup miimon 10")...)
	if out, err := add.CombinedOutput(); err != nil {
		kerneltest.Lacks(t, fmt.Sprintf("bonds (CONFIG_BONDING): %v %s", err, out))
		return nil
	}
	t.Cleanup(func() { kerneltest.IP(t, "link del bond0") })
	l := apartLAN(t)
	kerneltest.NewPort(t, "pf1", "")
	for _, pf := range []string{"pf0", "pf1"} {
		kerneltest.IP(t, "link set "+pf+" down")
		kerneltest.IP(t, "link set "+pf+" master bond0")
		kerneltest.IP(t, "link set "+pf+" up")
	}
	kerneltest.Quiet(t, "bond0")
	kerneltest.IP(t, "link set bond0 master br0 up")
	kerneltest.WaitFor(t, "pf0 to become active", func() bool {
		return exec.Command("ip", "link", "set", "bond0", "type", "bond", "active_slave", "pf0").Run() == nil
	})
	kerneltest.WaitForwarding(t, "bond0")
	return &l
}

// bondNow returns the state of bond0 from the list of links.
func bondNow(t *testing.T, h *testHost) netdev.Bond {
	links, err := h.Links(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	at := slices.IndexFunc(links, func(l netdev.Link) bool { return l.Name == "bond0" })
	return links[at].Bond
}

func index(t *testing.T, h *testHost, name string) int {
	l, err := h.Link(kerneltest.Soon(t), name)
	kerneltest.Must(t, err)
	return l.Index
}

// TestBond steers frames to a PF in a bond, if the kernel supports bonds, as the lab's does.
func TestBond(t *testing.T) {
	h, l := newHost(t), bondedLAN(t)
	if l == nil {
		return
	}
	if b := bondNow(t, h); b.Mode != netdev.ActiveBackup || b.Active != index(t, h, "pf0") {
		t.Errorf("the bond shows %+v", b)
	}
	kerneltest.Must(t, h.PreparePort(kerneltest.Soon(t), "bond0"))
	d := dual
	d.Port = "bond0"
	openQuietly(t, h, d)
	fromPeer := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "from the bridge")
	l.Peer.Send(t, fromPeer)
	l.SentOnly(t, l.Peer, map[*kerneltest.Port][]byte{l.Tap: fromPeer, l.PF: fromPeer})
	fromWire := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "from the wire")
	l.PF.Send(t, fromWire)
	l.SentOnly(t, l.Peer, map[*kerneltest.Port][]byte{l.Tap: fromWire})

	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "bond0"))
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), d))
	l.Peer.Send(t, fromPeer)
	l.SentOnly(t, l.Peer, map[*kerneltest.Port][]byte{l.PF: fromPeer})
	kerneltest.IP(t, "link set bond0 type bond active_slave pf1")
	kerneltest.WaitFor(t, "the change of the active port to show", func() bool { return bondNow(t, h).Active == index(t, h, "pf1") })
}

// TestDualPathBehindAPort tests frames received through the bridge port that leads to the PF when the PF is not that port: the
// kernel reports the bond as the ingress interface of a bonded PF's frames.
func TestDualPathBehindAPort(t *testing.T) {
	h, l := newHost(t), apartLAN(t)
	bond := kerneltest.NewPort(t, "bond0", "br0")
	d := dual
	d.Port = "bond0"
	openQuietly(t, h, d)
	fromWire := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "through the bond")
	bond.Send(t, fromWire)
	l.Tap.Expect(t, fromWire)
	fromPeer := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "from the bridge")
	l.Peer.Send(t, fromPeer)
	l.Tap.Expect(t, fromPeer)
	l.PF.Expect(t, fromPeer) // and no copy of the other came first
}
