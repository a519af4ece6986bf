package kernel

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// uplinkIn finds a PF's uplink among links.
func uplinkIn(links []Link, pf string) model.Uplink {
	byIndex, byName := map[int]*Link{}, map[string]*Link{}
	for i := range links {
		byIndex[links[i].Index], byName[links[i].Name] = &links[i], &links[i]
	}
	return UplinkOf(byName[pf], byIndex)
}

func TestUplink(t *testing.T) {
	const pf, second, bond, bridge, ovs, team = 1, 2, 3, 4, 5, 6
	for _, c := range []struct {
		name           string
		pf, bond       int // masters
		mode           BondMode
		active         int
		want           model.Uplink
		why, remedyHas string
	}{
		{name: "in a bridge", pf: bridge, want: model.Uplink{Switch: "br0", Port: "pf0"}},
		{name: "in nothing", why: "pf0 is in no bridge", remedyHas: "ip link set pf0 master"},
		{name: "in Open vSwitch", pf: ovs, why: "Open vSwitch", remedyHas: "Linux bridge"},
		{name: "in a team", pf: team, why: "pf0 is in team0 (team)", remedyHas: "active-backup"},
		{name: "in a bond in a bridge", pf: bond, bond: bridge, mode: ActiveBackup, active: pf, want: model.Uplink{Switch: "br0", Port: "bond0"}},
		{name: "in a bond alone", pf: bond, mode: ActiveBackup, active: pf, why: "bond0, which is in no bridge", remedyHas: "ip link set bond0 master"},
		{name: "in a bond in Open vSwitch", pf: bond, bond: ovs, mode: ActiveBackup, active: pf, why: "bond0 is a port of Open vSwitch", remedyHas: "Linux bridge"},
		{
			name: "in a bond of another mode", pf: bond, bond: bridge, mode: 4, want: model.Uplink{Switch: "br0", Port: "bond0"},
			why: "mode 802.3ad", remedyHas: "active-backup",
		},
		{
			name: "a backup", pf: bond, bond: bridge, mode: ActiveBackup, active: second, want: model.Uplink{Switch: "br0", Port: "bond0", Passes: true},
			why: "receives through pf1", remedyHas: "active_slave pf0",
		},
		{
			name: "a bond without link", pf: bond, bond: bridge, mode: ActiveBackup, want: model.Uplink{Switch: "br0", Port: "bond0", Passes: true},
			why: "no active port", remedyHas: "cables",
		},
		{name: "in what is not listed", pf: 99, why: "no bridge", remedyHas: "master"},
	} {
		got := uplinkIn([]Link{
			{Index: pf, Name: "pf0", Master: c.pf},
			{Index: second, Name: "pf1", Master: c.pf},
			{Index: bond, Name: "bond0", Kind: "bond", Master: c.bond, Bond: Bond{Mode: c.mode, Active: c.active}},
			{Index: bridge, Name: "br0", Kind: "bridge"},
			{Index: ovs, Name: "ovs-system", Kind: "openvswitch"},
			{Index: team, Name: "team0", Kind: "team"},
		}, "pf0")
		if (c.why == "") != (got.Why == "") || !strings.Contains(got.Why, c.why) || !strings.Contains(got.Remedy, c.remedyHas) {
			t.Errorf("%s: why %q, remedy %q; want %q, %q", c.name, got.Why, got.Remedy, c.why, c.remedyHas)
		}
		got.Why, got.Remedy = "", ""
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got): %s", c.name, diff)
		}
	}
}

func TestUplinkOfABridgePort(t *testing.T) {
	h := newHost(t)
	newLAN(t)
	links, err := h.Links(soon(t))
	must(t, err)
	if diff := cmp.Diff(model.Uplink{Switch: "br0", Port: "pf0"}, uplinkIn(links, "pf0")); diff != "" {
		t.Error("(-want +got):", diff)
	}
}

// bondedLAN is a LAN whose PF is the active port of a bond that is the bridge's port; nil
// where the kernel has no bonds, which the log then says.
func bondedLAN(t *testing.T) *lan {
	if out, err := exec.Command("ip", "link", "add", "bond0", "type", "bond", "mode", "active-backup", "miimon", "10").CombinedOutput(); err != nil {
		lacks(t, fmt.Sprintf("bonds (CONFIG_BONDING): %v %s", err, out))
		return nil
	}
	t.Cleanup(func() { kerneltest.IP(t, "link del bond0") })
	kerneltest.NewBridge(t, "br0")
	l := &lan{pf: kerneltest.NewPort(t, "pf0", ""), tap: kerneltest.NewPort(t, "tap0", "br0"), peer: kerneltest.NewPort(t, "tap1", "br0")}
	kerneltest.NewPort(t, "pf1", "")
	for _, pf := range []string{"pf0", "pf1"} {
		kerneltest.IP(t, "link set "+pf+" down")
		kerneltest.IP(t, "link set "+pf+" master bond0")
		kerneltest.IP(t, "link set "+pf+" up")
	}
	kerneltest.Quiet(t, "bond0")
	kerneltest.IP(t, "link set bond0 master br0 up")
	waitFor(t, "pf0 to become active", func() bool {
		return exec.Command("ip", "link", "set", "bond0", "type", "bond", "active_slave", "pf0").Run() == nil
	})
	kerneltest.WaitForwarding(t, "bond0")
	return l
}

// TestBond steers frames to a PF in a bond, where the kernel has bonds: the lab's does.
func TestBond(t *testing.T) {
	h, l := newHost(t), bondedLAN(t)
	if l == nil {
		return
	}
	links, err := h.Links(soon(t))
	must(t, err)
	if diff := cmp.Diff(model.Uplink{Switch: "br0", Port: "bond0"}, uplinkIn(links, "pf0")); diff != "" {
		t.Error("the active port (-want +got):", diff)
	}
	if up := uplinkIn(links, "pf1"); !strings.Contains(up.Why, "receives through pf0") {
		t.Errorf("the backup: %+v", up)
	}
	must(t, h.PreparePort(soon(t), "bond0"))
	w := window
	w.Port = "bond0"
	openQuietly(t, h, w)
	fromPeer := kerneltest.Frame(guest, other, "from the bridge")
	l.peer.Send(t, fromPeer)
	l.sentOnly(t, l.peer, map[*kerneltest.Port][]byte{l.tap: fromPeer, l.pf: fromPeer})
	fromWire := kerneltest.Frame(guest, other, "from the wire")
	l.pf.Send(t, fromWire)
	l.sentOnly(t, l.peer, map[*kerneltest.Port][]byte{l.tap: fromWire})

	must(t, h.PinFDB(soon(t), guest, 0, "bond0"))
	must(t, h.CloseWindow(soon(t), w))
	l.peer.Send(t, fromPeer)
	l.sentOnly(t, l.peer, map[*kerneltest.Port][]byte{l.pf: fromPeer})
	kerneltest.IP(t, "link set bond0 type bond active_slave pf1")
	waitFor(t, "the change of the active port to show", func() bool {
		links, err := h.Links(soon(t))
		must(t, err)
		return strings.Contains(uplinkIn(links, "pf0").Why, "receives through pf1")
	})
}

// TestWindowBehindAPort is about what came in through the bridge's port to the PF though
// the PF is not that port: the kernel says that a bonded PF's frames came from the bond.
func TestWindowBehindAPort(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	l := lan{pf: kerneltest.NewPort(t, "pf0", ""), tap: kerneltest.NewPort(t, "tap0", "br0"), peer: kerneltest.NewPort(t, "tap1", "br0")}
	bond := kerneltest.NewPort(t, "bond0", "br0")
	w := window
	w.Port = "bond0"
	openQuietly(t, h, w)
	fromWire := kerneltest.Frame(guest, other, "through the bond")
	bond.Send(t, fromWire)
	l.tap.Expect(t, fromWire)
	fromPeer := kerneltest.Frame(guest, other, "from the bridge")
	l.peer.Send(t, fromPeer)
	l.tap.Expect(t, fromPeer)
	l.pf.Expect(t, fromPeer) // and the other did not come first
}
