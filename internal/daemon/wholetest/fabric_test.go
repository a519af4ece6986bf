package wholetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/host/kernel/kerneltest"
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
	// twice is how long before and after a change of path, on an idle machine, a frame of the guest may come twice. Under OVN the switch may
	// still go by the port of before when it goes by the new one, and during a dual path what the VF sends comes in at both.
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
	kind: "ovn", make: startOVN, renamed: true, twice: 250 * time.Millisecond,
	join: func(t *testing.T, port string) {
		id := map[string]string{"tap0": "A", "tap1": "B"}[port]
		vsctl(t, "add-port", "br0", port, "--", "set", "interface", port, "external_ids:iface-id="+id)
		vsctl(t, "wait-until", "interface", port, "external_ids:ovn-installed=true")
	},
	// In user space ovs-vswitchd would keep reading from the interface that is gone, though there is another of its name.
	forget: func(t *testing.T, rep string) { vsctl(t, "--if-exists", "del-port", rep) },
	routes: func(t *testing.T) []string {
		return strings.Fields(vsctl(t, "--bare", "--columns=name", "find", "interface", "external_ids:iface-id=A"))
	},
}

func startOVN(t *testing.T) {
	dir, err := os.MkdirTemp("", "slo") // short: the length of a socket's path is limited
	kerneltest.Must(t, err)
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "del", "br0").Run() // it may outlive ovs-vswitchd
		_ = os.RemoveAll(dir)
	})
	t.Setenv("OVS_RUNDIR", dir)
	t.Setenv("OVN_RUNDIR", dir)
	socket := func(db string) string { return "unix:" + filepath.Join(dir, db+".sock") }
	for db, schema := range map[string]string{
		"db": "openvswitch/vswitch", "nb": "ovn/ovn-nb", "sb": "ovn/ovn-sb",
	} {
		file := filepath.Join(dir, db)
		tool(t, "ovsdb-tool", "create", file, "/usr/share/"+schema+".ovsschema")
		process(t, "ovsdb-server", file, "--remote=p"+socket(db), "--no-chdir", "--pidfile="+file+".pid", "--unixctl="+file+".ctl")
	}
	for db, init := range map[string][]string{"db": {"ovs-vsctl", "--no-wait"}, "nb": {"ovn-nbctl"}, "sb": {"ovn-sbctl"}} {
		kerneltest.WaitFor(t, "the database "+db, func() bool {
			args := append(slices.Clone(init[1:]), "--db="+socket(db), "--timeout=5", "init")
			return exec.Command(init[0], args...).Run() == nil
		})
	}
	process(t, "ovs-vswitchd", socket("db"), "--pidfile", "--no-chdir")
	process(t, "ovn-northd", "--ovnnb-db="+socket("nb"), "--ovnsb-db="+socket("sb"), "--pidfile", "--no-chdir")
	datapath := "netdev"
	_ = exec.Command("modprobe", "openvswitch").Run()
	if _, err := os.Stat("/sys/module/openvswitch"); err == nil {
		datapath = "system"
		t.Cleanup(func() { _ = exec.Command("ovs-dpctl", "del-dp", "system@ovs-system").Run() })
	}
	vsctl(t, "set", "open", ".", "external_ids:system-id=here", "external_ids:ovn-remote="+socket("sb"),
		"external_ids:ovn-encap-type=geneve", "external_ids:ovn-encap-ip=127.0.0.1", "external_ids:ovn-bridge=br0",
		"external_ids:ovn-bridge-datapath-type="+datapath, "external_ids:ovn-monitor-all=true", "--",
		"add-br", "br0", "--", "set", "bridge", "br0", "datapath_type="+datapath, "fail_mode=secure")
	process(t, "ovn-controller", socket("db"), "--pidfile", "--no-chdir")
	tool(t, "ovn-nbctl", "--db="+socket("nb"), "--timeout=60", "--wait=hv", "ls-add", "s",
		"--", "lsp-add", "s", "A", "--", "lsp-set-addresses", "A", kerneltest.Guest.String(),
		"--", "lsp-set-port-security", "A", kerneltest.Guest.String(),
		"--", "lsp-add", "s", "B", "--", "lsp-set-addresses", "B", kerneltest.Other.String())
}

func vsctl(t *testing.T, args ...string) string {
	t.Helper()
	return tool(t, "ovs-vsctl", append([]string{"--db=unix:" + filepath.Join(os.Getenv("OVS_RUNDIR"), "db.sock"), "--timeout=60"}, args...)...)
}

func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v (apt-get install ovn-central ovn-host openvswitch-switch): %s", name, args, err, out)
	}
	return string(out)
}

// process runs a program until the end of the test.
func process(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, append(args, "--log-file="+filepath.Join(os.Getenv("OVS_RUNDIR"), name+".log"))...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	kerneltest.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}
