package wholetest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/uplink/ovstest"
)

// fabric is the switch br0 of a site.
type fabric struct {
	kind string // as the daemon calls it
	make func(t *testing.T)
	join func(t *testing.T, port string)
	wire bool // the PF is a port of it, and frames from the wire reach the guest
	// routes returns the ports at which the switch has been told that the guest is.
	routes func(t *testing.T) []string
	learns bool // it need not be told that the guest is at its tap
	// twice is how long before and after a change of path, on an idle machine, a frame of the guest may come twice, or not at all: during a
	// dual path under OVN what the VF sends comes in at both ports, and the switch may look at one copy before it goes by the new port and at
	// the other after that.
	twice time.Duration
	// renamed is set if the switch may lose a port that is renamed, until Sluice makes the new name a port.
	renamed bool
	// forget makes the switch forget a representor that is gone; nil: it does by itself.
	forget func(t *testing.T, rep string)
}

var linuxBridge = fabric{
	kind: "linux-bridge", wire: true, learns: true,
	make: func(t *testing.T) { kerneltest.NewBridge(t, "br0") },
	join: func(t *testing.T, port string) {
		kerneltest.IP(t, "link set "+port+" master br0")
		kerneltest.WaitForwarding(t, port)
	},
	routes: func(t *testing.T) (ports []string) {
		for line := range strings.Lines(kerneltest.Bridge(t, "fdb show br br0")) {
			f := strings.Fields(line)
			if len(f) > 3 && f[0] == kerneltest.Guest.String() && slices.Contains(f, "static") {
				ports = append(ports, f[2])
			}
		}
		return ports
	},
}

// shows reports what sysfs says of an interface.
func shows(dev, file, want string) bool {
	text, err := os.ReadFile(filepath.Join("/sys/class/net", dev, file))
	return err == nil && strings.TrimSpace(string(text)) == want
}

// ovn is a host of OVN. Its logical switch has the ports A, of the guest, and B, of the peer.
var ovn = fabric{
	kind: "ovn", renamed: true, twice: 250 * time.Millisecond,
	make: func(t *testing.T) { ovstest.StartOVN(t, kerneltest.Other.String()) },
	join: func(t *testing.T, port string) {
		id := map[string]string{"tap0": "A", "tap1": "B"}[port]
		ovstest.VSCtl(t, "add-port", "br0", port, "--", "set", "interface", port, "external_ids:iface-id="+id)
		ovstest.VSCtl(t, "wait-until", "interface", port, "external_ids:ovn-installed=true")
	},
	// In user space ovs-vswitchd would keep reading from the interface that is gone, though there is another of its name.
	forget: func(t *testing.T, rep string) { ovstest.VSCtl(t, "--if-exists", "del-port", rep) },
	routes: func(t *testing.T) []string {
		return strings.Fields(ovstest.VSCtl(t, "--bare", "--columns=name", "find", "interface", "external_ids:iface-id=A"))
	},
}
