package wholetest

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	// moves begins to note when the switch changes the port at which it takes in the guest's frames; nil: it takes them in at all ports. A
	// frame of the guest may come twice then, or not at all: during a dual path what the VF sends comes in at both ports, and the switch may
	// look at one copy before it goes by the new port and at the other after that.
	moves func(t *testing.T) func() []span
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
	kind: "ovn", renamed: true, moves: portMoves,
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

// portMoves implements fabric.moves by what the database of Open vSwitch tells: a move is from when the logical port is at another
// interface until OVN has set it up there.
func portMoves(t *testing.T) func() []span {
	cmd := exec.Command("ovsdb-client", "monitor", "--format=csv", "unix:"+filepath.Join(os.Getenv("OVS_RUNDIR"), "db.sock"), "Open_vSwitch",
		"Interface", "name,external_ids")
	out, err := cmd.StdoutPipe()
	kerneltest.Must(t, errors.Join(err, cmd.Start()))
	var mu sync.Mutex
	var all []span
	ended := make(chan struct{})
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended; _ = cmd.Wait() })
	hasPort := regexp.MustCompile(`[{ ]iface-id=A[,}]`)
	go func() {
		defer close(ended)
		at, moving := "", false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f := strings.SplitN(lines.Text(), ",", 4) // row, what happened, name, ids
			if len(f) < 4 || f[1] == "old" || f[1] == "delete" || !hasPort.MatchString(f[3]) {
				continue
			}
			mu.Lock()
			if f[2] != at {
				at, moving = f[2], true
				all = append(all, span{from: time.Now()})
			}
			if moving {
				all[len(all)-1].end = time.Now()
			}
			moving = moving && !strings.Contains(f[3], "ovn-installed=")
			mu.Unlock()
		}
	}()
	return func() []span {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}
