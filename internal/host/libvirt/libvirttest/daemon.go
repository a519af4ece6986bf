// Package libvirttest runs a real libvirtd for tests, isolated from the machine: it has its own mount, network and PID namespaces, and its
// files are in a temporary directory. All of its processes die with the test. It needs root.
package libvirttest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/tests/testkit"
)

// NoLibvirtd is the environment variable that, set to 1, skips the tests that need libvirtd.
const NoLibvirtd = "SLUICE_TEST_NO_LIBVIRTD"

// Packages are the Debian packages that these tests need.
const Packages = "libvirt-clients libvirt-daemon libvirt-daemon-driver-qemu libvirt-daemon-system qemu-system-x86"

// Bridge is a bridge in the daemon's network namespace for use by domains.
const Bridge = "br0"

// VSwitch is a bridge of Open vSwitch that only Switches knows.
const VSwitch = "ovs0"

// NoFunctions is another, which takes no functions of virtual PFs.
const NoFunctions = "br-int"

// Switches is a libvirt.Switches with only these bridges.
type Switches struct{}

// Connection implements libvirt.Switches.
func (Switches) Connection(_ context.Context, name string) (model.TapConnection, error) {
	switch name {
	case Bridge:
		return model.TapConnection{Switch: name}, nil
	case VSwitch:
		return model.TapConnection{Switch: name, VirtualPort: "openvswitch"}, nil
	case NoFunctions:
		return model.TapConnection{Switch: name, VirtualPort: "openvswitch", NoFunctions: "others manage it; name another"}, nil
	}
	return model.TapConnection{}, fmt.Errorf("%w: there is no switch %s", model.ErrPermanent, name)
}

// Daemon is a private libvirtd.
type Daemon struct {
	dir  string
	init *exec.Cmd
	done chan struct{} // closed when init has exited
}

// Start runs a libvirtd until the test ends. If it cannot run, the test fails, unless the environment variable NoLibvirtd says to skip.
func Start(t testing.TB) *Daemon {
	t.Helper()
	if os.Getenv(NoLibvirtd) == "1" {
		t.Skip(NoLibvirtd + "=1")
	}
	need(t)
	dir, err := os.MkdirTemp("", "lv") // short: the length of Unix socket paths is limited
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{dir: dir, done: make(chan struct{})}
	t.Cleanup(func() { d.end(t) })
	d.layOut(t)
	d.startInit(t)
	d.Start(t)
	return d
}

func need(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatalf("these tests need root; %s=1 skips them", NoLibvirtd)
	}
	if err := testkit.PrivateMounts(); err != nil {
		t.Fatal(err)
	}
	for _, prog := range []string{"libvirtd", "virsh", "qemu-system-x86_64", "nsenter", "bash", "ip"} {
		if _, err := exec.LookPath(prog); err != nil {
			t.Fatalf("%s is missing: apt-get install --no-install-recommends %s iproute2 util-linux (%s=1 skips these tests)", prog, Packages,
				NoLibvirtd)
		}
	}
}

// places maps subdirectories of the temporary directory to libvirtd's fixed directories.
var places = map[string]string{
	"etc": "/etc/libvirt", "run": "/run/libvirt", "lib": "/var/lib/libvirt", "cache": "/var/cache/libvirt", "log": "/var/log/libvirt",
	"ovs": "/run/openvswitch",
}

const libvirtdConf = `listen_tls = 0
auth_unix_rw = "none"
auth_unix_ro = "none"
unix_sock_group = "root"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
`

const qemuConf = `user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
`

func (d *Daemon) layOut(t testing.TB) {
	t.Helper()
	for name := range places {
		if err := os.Mkdir(filepath.Join(d.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"libvirtd.conf": libvirtdConf, "qemu.conf": qemuConf} {
		if err := os.WriteFile(filepath.Join(d.dir, "etc", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// initScript sets up the namespaces and then reaps orphans: libvirt waits a long time for a process that has exited but is not reaped.
func (d *Daemon) initScript() string {
	var b strings.Builder
	b.WriteString("set -e\nmount --make-rprivate /\nmount -t proc proc /proc\nmount -t sysfs sysfs /sys\n")
	for name, place := range places {
		fmt.Fprintf(&b, "mkdir -p %[1]s\nmount --bind %[2]s %[1]s\n", place, filepath.Join(d.dir, name))
	}
	fmt.Fprintf(&b, "ip link set lo up\nip link add %[1]s type bridge\nip link set %[1]s up\necho ready\n", Bridge)
	b.WriteString("sleep infinity &\nwhile :; do wait $! || true; done\n")
	return b.String()
}

func (d *Daemon) startInit(t testing.TB) {
	t.Helper()
	d.init = exec.Command("bash", "-c", d.initScript())
	d.init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	var errs bytes.Buffer
	d.init.Stderr = &errs
	out, err := d.init.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Pdeathsig watches the thread, not the process
		defer close(d.done)
		err := d.init.Start()
		started <- err
		if err == nil {
			_ = d.init.Wait() // also collects the rest of its stderr
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("namespaces for libvirtd: %v", err)
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		_ = d.init.Process.Kill()
		<-d.done
		t.Fatalf("namespaces for libvirtd: %s", errs.String())
	}
}

// inside returns a command that runs in the daemon's namespaces.
func (d *Daemon) inside(args ...string) *exec.Cmd {
	pre := []string{"-t", strconv.Itoa(d.init.Process.Pid), "-m", "-n", "-p", "--"}
	return exec.Command("nsenter", append(pre, args...)...)
}

// Run runs a command in the daemon's namespaces and returns its output.
func (d *Daemon) Run(t testing.TB, args ...string) string {
	t.Helper()
	out, err := d.inside(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Start starts libvirtd, also after Kill, and waits until it answers.
func (d *Daemon) Start(t testing.TB) {
	t.Helper()
	d.Run(t, "libvirtd", "-d", "-f", "/etc/libvirt/libvirtd.conf", "-p", "/run/libvirt/libvirtd.pid")
	d.Virsh(t, "list")
}

// Kill kills libvirtd with SIGKILL; its domains keep running.
func (d *Daemon) Kill(t testing.TB) {
	t.Helper()
	d.signal(t, "libvirtd.pid", "-KILL")
	Eventually(t, time.Minute, "libvirtd is gone", func() bool {
		return d.inside("kill", "-0", d.pid(t, "libvirtd.pid")).Run() != nil
	})
}

// Freeze stops libvirtd with SIGSTOP; Thaw resumes it.
func (d *Daemon) Freeze(t testing.TB) { d.signal(t, "libvirtd.pid", "-STOP") }

// Thaw undoes Freeze.
func (d *Daemon) Thaw(t testing.TB) { d.signal(t, "libvirtd.pid", "-CONT") }

// FreezeVM stops a domain's QEMU with SIGSTOP: calls that need it do not return.
func (d *Daemon) FreezeVM(t testing.TB, name string) { d.signal(t, "qemu/"+name+".pid", "-STOP") }

// ThawVM undoes FreezeVM.
func (d *Daemon) ThawVM(t testing.TB, name string) { d.signal(t, "qemu/"+name+".pid", "-CONT") }

func (d *Daemon) signal(t testing.TB, pidFile, sig string) {
	t.Helper()
	d.Run(t, "kill", sig, d.pid(t, pidFile))
}

func (d *Daemon) pid(t testing.TB, pidFile string) string {
	t.Helper()
	pid, err := os.ReadFile(filepath.Join(d.dir, "run", pidFile))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(pid))
}

func (d *Daemon) socket() string  { return filepath.Join(d.dir, "run", "libvirt-sock") }
func (d *Daemon) logFile() string { return filepath.Join(d.dir, "log", "libvirtd.log") }

// CPU returns the processor time that libvirtd has used since it started.
func (d *Daemon) CPU(t testing.TB) time.Duration {
	t.Helper()
	stat := d.Run(t, "cat", "/proc/"+d.pid(t, "libvirtd.pid")+"/stat")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	var ticks int64
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// URI returns the daemon's URI.
func (d *Daemon) URI() string { return "qemu:///system?socket=" + d.socket() }

// TestDriverURI returns the URI of the daemon's test driver, which has one domain and no QEMU.
func (d *Daemon) TestDriverURI() string { return "test:///default?socket=" + d.socket() }

// Virsh runs virsh on the daemon.
func (d *Daemon) Virsh(t testing.TB, args ...string) string {
	t.Helper()
	out, err := d.virsh(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (d *Daemon) virsh(args ...string) (string, error) {
	out, err := exec.Command("virsh", append([]string{"-c", d.URI()}, args...)...).CombinedOutput() //nolint:gosec // a test's own words
	if err != nil {
		return "", fmt.Errorf("virsh %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Destroy stops a domain. A libvirtd that is restarting checks its domains at the same time, and may then itself find the domain gone.
func (d *Daemon) Destroy(t testing.TB, name string) {
	t.Helper()
	out, err := exec.Command("virsh", "-c", d.URI(), "destroy", name).CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("Domain not found")) {
		t.Fatalf("virsh destroy %s: %v\n%s", name, err, out)
	}
}

// File writes text to a file that can be passed to virsh.
func (d *Daemon) File(t testing.TB, text string) string {
	t.Helper()
	f, err := os.CreateTemp(d.dir, "*.xml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(f, text)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// end kills everything: all processes of a PID namespace die with its first one.
func (d *Daemon) end(t testing.TB) {
	if t.Failed() {
		if log, err := os.ReadFile(d.logFile()); err == nil {
			t.Logf("libvirtd's log ends:\n%s", log[max(0, len(log)-4000):])
		}
	}
	if d.init != nil && d.init.Process != nil {
		_ = d.init.Process.Kill()
		<-d.done
	}
	if err := os.RemoveAll(d.dir); err != nil {
		t.Error(err)
	}
}

// Eventually waits for a condition and fails the test if it is not met within limit.
func Eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
