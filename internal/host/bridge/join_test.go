package bridge

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// TestJoinAs puts an interface into the bridge of a tap, and back after somebody took it out.
func TestJoinAs(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	kerneltest.NewPort(t, "tap0", "br0")
	kerneltest.NewPort(t, "rep0", "")
	kerneltest.IP(t, "link set rep0 down")
	for _, spoil := range []string{"", "link set rep0 nomaster", "link set rep0 down", "link set rep0 type bridge_slave learning on"} {
		if spoil != "" {
			kerneltest.IP(t, spoil)
		}
		kerneltest.Must(t, h.JoinAs(kerneltest.Soon(t), "rep0", "tap0"))
		p, err := h.port(kerneltest.Soon(t), "rep0")
		kerneltest.Must(t, err)
		learning, err := h.portFlag(kerneltest.Soon(t), "rep0", 8)
		if err != nil || !p.Up || p.bridge.Name != "br0" || learning {
			t.Errorf("after %q: %+v, learning %v, %v", spoil, p, learning, err)
		}
	}
	kerneltest.NewBridge(t, "br1")
	kerneltest.IP(t, "link set rep0 master br1")
	if err := h.JoinAs(kerneltest.Soon(t), "rep0", "tap0"); !errors.Is(err, model.ErrPermanent) || !strings.Contains(err.Error(), "master br0") {
		t.Errorf("a port of another bridge: %v", err)
	}
	for _, names := range [][2]string{{"rep0", "lo"}, {"rep0", "tap9"}, {"rep9", "tap0"}} {
		if err := h.JoinAs(kerneltest.Soon(t), names[0], names[1]); err == nil {
			t.Errorf("%v: no error", names)
		}
	}
}

// TestJoinAsTakesTheVLANs: where a bridge filters VLANs, the port is in those of the tap and in no others.
func TestJoinAsTakesTheVLANs(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	kerneltest.NewPort(t, "tap0", "br0")
	kerneltest.NewPort(t, "rep0", "")
	if !kerneltest.FilterVLANs(t, "br0") {
		return
	}
	for _, line := range []string{
		"vlan add dev tap0 vid 7 pvid untagged", "vlan del dev tap0 vid 1", "vlan add dev tap0 vid 20-22",
	} {
		kerneltest.Bridge(t, line)
		kerneltest.Must(t, h.JoinAs(kerneltest.Soon(t), "rep0", "tap0"))
		var got [2][]portVLAN
		for i, name := range []string{"tap0", "rep0"} {
			l, err := h.links.Link(kerneltest.Soon(t), name)
			kerneltest.Must(t, err)
			got[i], err = h.vlansOf(kerneltest.Soon(t), l.Index)
			kerneltest.Must(t, err)
		}
		if !slices.Equal(got[0], got[1]) || len(got[0]) == 0 {
			t.Errorf("after %q: the tap is in %v, the other port in %v", line, got[0], got[1])
		}
	}
}

// TestJoinAsWaitsForSTP: a port that the spanning tree protocol does not let forward yet is no path to a guest.
func TestJoinAsWaitsForSTP(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	kerneltest.NewPort(t, "tap0", "br0")
	kerneltest.NewPort(t, "rep0", "")
	kerneltest.IP(t, "link set br0 type bridge stp_state 1 forward_delay 3000")
	if err := h.JoinAs(kerneltest.Soon(t), "rep0", "tap0"); err == nil || !strings.Contains(err.Error(), "spanning tree") {
		t.Errorf("a port that does not forward: %v", err)
	}
}

// TestJoinAndLeave makes an interface a port of a bridge for a while, and leaves it as it was.
func TestJoinAndLeave(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	kerneltest.NewPort(t, "rep0", "")
	kerneltest.IP(t, "link set rep0 down")
	for range 2 {
		kerneltest.Must(t, h.Join(kerneltest.Soon(t), "rep0", "br0"))
		kerneltest.WaitForwarding(t, "rep0")
		if out := kerneltest.IP(t, "-d link show rep0"); !strings.Contains(out, "master br0") || !strings.Contains(out, "learning off") {
			t.Errorf("joined: %s", out)
		}
	}
	for _, down := range []bool{false, true, true} {
		kerneltest.Must(t, h.Leave(kerneltest.Soon(t), "rep0", down))
		if out := kerneltest.IP(t, "link show rep0"); strings.Contains(out, "master") || strings.Contains(out, ",UP") == down {
			t.Errorf("left, down %v: %s", down, out)
		}
	}
	kerneltest.NewBridge(t, "br7")
	kerneltest.Must(t, h.Join(kerneltest.Soon(t), "rep0", "br7"))
	if err := h.Join(kerneltest.Soon(t), "rep0", "br0"); !errors.Is(err, model.ErrPermanent) {
		t.Errorf("it is in another bridge: %v", err)
	}
	if err := h.Join(kerneltest.Soon(t), "rep0", "br9"); err == nil {
		t.Error("joined a bridge that is not there")
	}
}
