// Package ovstest runs Open vSwitch and OVN for the tests of other packages. Only tests import it.
package ovstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/host/kernel/kerneltest"
)

// Host is a host of Open vSwitch, and of OVN if Controller is set.
type Host struct {
	Dir                          string // with databases, sockets and logs
	Database, Switch, Controller *exec.Cmd
}

// Start starts Open vSwitch with a bridge br0. It ends with the test.
func Start(t *testing.T) *Host {
	h := New(t)
	t.Cleanup(func() { // the bridge's interface and the kernel's datapath, which outlive the daemons
		_ = exec.Command("ip", "link", "delete", "br0").Run()
		_ = exec.Command("ovs-dpctl", "del-dp", "system@ovs-system").Run()
	})
	h.StartSwitch(t)
	VSCtl(t, "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type="+Datapath(t))
	return h
}

// New starts the database of Open vSwitch alone.
func New(t *testing.T) *Host {
	dir, err := os.MkdirTemp("", "slo") // short: the length of a socket's path is limited
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("OVS_RUNDIR", dir)
	t.Setenv("OVN_RUNDIR", dir)
	h := &Host{Dir: dir}
	Tool(t, "ovsdb-tool", "create", filepath.Join(dir, "db"), "/usr/share/openvswitch/vswitch.ovsschema")
	h.StartDatabase(t)
	kerneltest.WaitFor(t, "the database", func() bool {
		return exec.Command("ovs-vsctl", "--db="+h.Socket("db"), "--timeout=5", "--no-wait", "init").Run() == nil
	})
	return h
}

// StartOVN starts OVN with a logical switch s. It has the ports A, of the guest, with port security, and B, of others with these addresses.
func StartOVN(t *testing.T, others string) *Host {
	h := Start(t)
	for _, db := range []string{"nb", "sb"} {
		file := filepath.Join(h.Dir, db)
		Tool(t, "ovsdb-tool", "create", file, "/usr/share/ovn/ovn-"+db+".ovsschema")
		run(t, "ovsdb-server", file, "--remote=p"+h.Socket(db), "--pidfile="+file+".pid", "--unixctl="+file+".ctl")
		kerneltest.WaitFor(t, "the database of "+db, func() bool {
			return exec.Command("ovn-"+db+"ctl", "--db="+h.Socket(db), "--timeout=5", "init").Run() == nil
		})
	}
	run(t, "ovn-northd", "--ovnnb-db="+h.Socket("nb"), "--ovnsb-db="+h.Socket("sb"), "--pidfile")
	VSCtl(t, "set", "open", ".", "external_ids:system-id=here", "external_ids:ovn-remote="+h.Socket("sb"),
		"external_ids:ovn-encap-type=geneve", "external_ids:ovn-encap-ip=127.0.0.1", "external_ids:ovn-bridge=br0",
		"external_ids:ovn-bridge-datapath-type="+Datapath(t), "external_ids:ovn-monitor-all=true", "--",
		"set", "bridge", "br0", "fail_mode=secure")
	h.StartController(t)
	h.NB(t, "ls-add", "s", "--", "lsp-add", "s", "A", "--", "lsp-set-addresses", "A", kerneltest.Guest.String(),
		"--", "lsp-set-port-security", "A", kerneltest.Guest.String(), "--", "lsp-add", "s", "B", "--", "lsp-set-addresses", "B", others)
	return h
}

// Socket is where a database answers: db of Open vSwitch, nb and sb of OVN.
func (h *Host) Socket(db string) string { return "unix:" + filepath.Join(h.Dir, db+".sock") }

// StartDatabase starts the server of Open vSwitch's database, again after Kill.
func (h *Host) StartDatabase(t *testing.T) {
	h.Database = run(t, "ovsdb-server", filepath.Join(h.Dir, "db"), "--remote=p"+h.Socket("db"), "--pidfile")
}

// StartSwitch starts ovs-vswitchd, again after Kill.
func (h *Host) StartSwitch(t *testing.T) {
	h.Switch = run(t, "ovs-vswitchd", h.Socket("db"), "--pidfile")
}

// StartController starts ovn-controller, again after Kill.
func (h *Host) StartController(t *testing.T) {
	h.Controller = run(t, "ovn-controller", h.Socket("db"), "--pidfile")
}

// NB changes what OVN is to do, and waits until this host does it.
func (h *Host) NB(t *testing.T, args ...string) {
	t.Helper()
	Tool(t, "ovn-nbctl", append([]string{"--db=" + h.Socket("nb"), "--timeout=60", "--wait=hv"}, args...)...)
}

// Datapath returns the type of datapath that this kernel has, which only the lab's must have: "system" if its module can be loaded, else
// the one in user space.
func Datapath(t *testing.T) string {
	failed := exec.Command("modprobe", "openvswitch").Run()
	if _, err := os.Stat("/sys/module/openvswitch"); err == nil || failed == nil {
		return "system"
	}
	kerneltest.Lacks(t, "the datapath of Open vSwitch (CONFIG_OPENVSWITCH): the one in user space is used")
	return "netdev"
}

// VSCtl runs ovs-vsctl.
func VSCtl(t *testing.T, args ...string) string {
	t.Helper()
	db := "--db=unix:" + filepath.Join(os.Getenv("OVS_RUNDIR"), "db.sock")
	return Tool(t, "ovs-vsctl", append([]string{db, "--timeout=60"}, args...)...)
}

// Tool runs a program and returns what it prints.
func Tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v (apt-get install openvswitch-switch ovn-central ovn-host): %s", name, args, err, out)
	}
	return string(out)
}

// run starts a process that ends with the test.
func run(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, append(args, "--no-chdir", "--log-file="+filepath.Join(os.Getenv("OVS_RUNDIR"), name+".log"))...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	kerneltest.Must(t, cmd.Start())
	t.Cleanup(func() { Kill(cmd) })
	return cmd
}

// Kill kills a process of the host and waits until it has ended.
func Kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
