package uplinktest

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink/ovs"
)

// datapath returns the type of datapath that this kernel has, which only the lab's must have: "system" if its module can be loaded, else
// the one in user space.
func datapath(t *testing.T) string {
	failed := exec.Command("modprobe", "openvswitch").Run()
	if _, err := os.Stat("/sys/module/openvswitch"); err == nil || failed == nil {
		return "system"
	}
	kerneltest.Lacks(t, "the datapath of Open vSwitch (CONFIG_OPENVSWITCH): the one in user space is used")
	return "netdev"
}

// ovsHost is a host of Open vSwitch.
type ovsHost struct{ database, vswitchd *exec.Cmd }

// socket is where its database answers.
func (o *ovsHost) socket() string { return "unix:" + filepath.Join(os.Getenv("OVS_RUNDIR"), "db.sock") }

func (o *ovsHost) startDatabase(t *testing.T) {
	o.database = daemon(t, "ovsdb-server", filepath.Join(os.Getenv("OVS_RUNDIR"), "conf.db"), "--remote=p"+o.socket(), "--pidfile", "--no-chdir")
}

func (o *ovsHost) startSwitch(t *testing.T) {
	o.vswitchd = daemon(t, "ovs-vswitchd", o.socket(), "--pidfile", "--no-chdir")
}

// restartSwitch kills ovs-vswitchd and starts it, and waits until it has the taps again.
func (o *ovsHost) restartSwitch(t *testing.T) {
	kill(o.vswitchd)
	o.startSwitch(t)
	kerneltest.WaitFor(t, "the ports to be there again", func() bool {
		out, err := exec.Command("ovs-appctl", "--timeout=5", "-t", "ovs-vswitchd", "dpif/show").CombinedOutput()
		return err == nil && strings.Contains(string(out), guestTap) && strings.Contains(string(out), otherTap)
	})
}

// startOVS starts Open vSwitch with a bridge br0. It ends with the test.
func startOVS(t *testing.T) (o *ovsHost) {
	o = &ovsHost{}
	for _, tool := range []string{"ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-appctl"} {
		if _, err := exec.LookPath(tool); err != nil {
			kerneltest.Lacks(t, "Open vSwitch (apt-get install openvswitch-switch): "+err.Error())
		}
	}
	dir := t.TempDir()
	t.Setenv("OVS_RUNDIR", dir)
	t.Cleanup(func() { // the bridge's interface and the kernel's datapath, which outlive the daemons
		_ = exec.Command("ip", "link", "delete", "br0").Run()
		_ = exec.Command("ovs-dpctl", "del-dp", "system@ovs-system").Run()
	})
	tool(t, "ovsdb-tool", "create", filepath.Join(dir, "conf.db"), schema(t))
	o.startDatabase(t)
	kerneltest.WaitFor(t, "the database", func() bool {
		return exec.Command("ovs-vsctl", "--db="+o.socket(), "--timeout=5", "--no-wait", "init").Run() == nil
	})
	o.startSwitch(t)
	vsctl(t, "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type="+datapath(t))
	return o
}

// schema is where the package has the database's schema.
func schema(t *testing.T) string {
	const path = "/usr/share/openvswitch/vswitch.ovsschema"
	if _, err := os.Stat(path); err != nil {
		kerneltest.Lacks(t, "the schema of Open vSwitch: "+err.Error())
	}
	return path
}

func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
}

func vsctl(t *testing.T, args ...string) {
	t.Helper()
	socket := "--db=unix:" + filepath.Join(os.Getenv("OVS_RUNDIR"), "db.sock")
	tool(t, "ovs-vsctl", append([]string{socket, "--timeout=60"}, args...)...)
}

// daemon starts a process that ends with the test.
func daemon(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, append(args, "--log-file="+filepath.Join(os.Getenv("OVS_RUNDIR"), name+".log"))...)
	kerneltest.Must(t, cmd.Start())
	t.Cleanup(func() { kill(cmd) })
	return cmd
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// ovsWorld is Open vSwitch. Frames that leave its pf0 are those that a NIC would pass to the VF.
func ovsWorld(t *testing.T) world {
	startOVS(t)
	return worldOf(t)
}

// worldOf has pf0 and the taps in the bridge br0 of the Open vSwitch that runs.
func worldOf(t *testing.T) world {
	lan := kerneltest.LAN{
		PF: kerneltest.NewPort(t, "pf0", ""), Tap: kerneltest.NewPort(t, guestTap, ""), Peer: kerneltest.NewPort(t, otherTap, ""),
	}
	for _, p := range []*kerneltest.Port{lan.PF, lan.Tap, lan.Peer} {
		vsctl(t, "add-port", "br0", p.Name)
	}
	k := newKernel(t)
	s := ovs.New(kerneltest.Soon(t), k, slog.New(slog.DiscardHandler))
	s.AllowUserspace()
	t.Cleanup(s.Close)
	w := realWorld(t, k, s, lan, lan.PF, func(t *testing.T, port string) {
		vsctl(t, "add-port", "br0", port)
		kerneltest.WaitFor(t, "the database to tell of "+port, func() bool {
			_, ok := s.Tap(nil, &netdev.Link{Name: port})
			return ok
		})
	})
	w.learns = true
	w.change = func(t *testing.T) { vsctl(t, "set", "port", guestTap, "tag=7") }
	return w
}
