package kerneltest

import (
	"errors"
	"os"
	"testing"

	"sluice/internal/host/sysif"
)

// LAN is a bridge with a PF-like port, a guest's tap and another machine's tap.
type LAN struct {
	PF, Tap, Peer *Port
}

// NewLAN creates bridge br0 with ports pf0, tap0 and tap1.
func NewLAN(t testing.TB) LAN {
	NewBridge(t, "br0")
	return LAN{
		PF:   NewPort(t, "pf0", "br0"),
		Tap:  NewPort(t, "tap0", "br0"),
		Peer: NewPort(t, "tap1", "br0"),
	}
}

// FilterVLANs enables VLAN filtering; it returns false if the kernel does not support it.
func FilterVLANs(t *testing.T, bridge string) bool {
	err := sysif.OSFiles{}.WriteFile("/sys/class/net/"+bridge+"/bridge/vlan_filtering", []byte("1"))
	if errors.Is(err, os.ErrNotExist) {
		Lacks(t, "VLAN filters of bridges (CONFIG_BRIDGE_VLAN_FILTERING)")
		return false
	}
	Must(t, err)
	return true
}

// SentOnly checks that only want left the ports: the marker flooded afterwards must be the next frame at each.
func (l LAN) SentOnly(t *testing.T, from *Port, want map[*Port][]byte) {
	t.Helper()
	marker := Frame(Stray, Other, "marker")
	from.Send(t, marker)
	for _, p := range []*Port{l.PF, l.Tap, l.Peer} {
		if f := want[p]; f != nil {
			p.Expect(t, f)
		}
		if p != from {
			p.Expect(t, marker)
		}
	}
}
