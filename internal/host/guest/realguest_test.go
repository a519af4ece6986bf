package guest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// realGuest is a qemu-ga in network, mount and process namespaces of its own, which is restarted when it ends, as by a guest's init. Its
// NICs are connected to the namespace of the test's second child.
type realGuest struct {
	t      testing.TB
	init   int // its first process, as the host sees it
	wire   int // a process in the namespace that the NICs lead to
	shaper *Shaper
}

// nicMAC returns the MAC of NIC i of a realGuest, m0, m1 and so on.
func nicMAC(i int) model.MAC { return model.MAC{0x52, 0x54, 0, 0, 0, byte(i + 1)} }

var vm = model.VMID("vm")

// newRealGuest starts a guest with n NICs. The device above a pair is a macvlan, since the kernel of a test may lack bonds: a simulated
// /sys/class/net describes it as one of the supported kinds.
func newRealGuest(t testing.TB, nics int, args ...string) *realGuest {
	t.Helper()
	needAgent(t)
	dir, err := os.MkdirTemp("", "ga")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	set := []string{"set -e", "mount --make-rprivate /", "mount -t tmpfs tmpfs /run", "ip link set lo up"}
	for i := range nics {
		mac := nicMAC(i)
		set = append(set, fmt.Sprintf("ip link add v%d address %s type veth peer w%d", i, mac, i),
			fmt.Sprintf("echo 1 >/proc/sys/net/ipv6/conf/v%d/disable_ipv6", i),
			fmt.Sprintf("ip link set v%d up; ip link add m%d link v%d type macvlan mode passthru", i, i, i),
			fmt.Sprintf("echo 1 >/proc/sys/net/ipv6/conf/m%d/disable_ipv6; ip link set m%d up; ip addr add 192.0.%d.1/24 dev m%d", i, i, i, i))
		for name, files := range map[string][]string{fmt.Sprintf("v%d", i): nil, fmt.Sprintf("m%d", i): {fmt.Sprintf("lower_v%d", i), "device"}} {
			d := filepath.Join(dir, "net", name)
			must(t, os.MkdirAll(d, 0o700))
			must(t, os.WriteFile(filepath.Join(d, "address"), []byte(mac.String()+"\n"), 0o600))
			must(t, os.WriteFile(filepath.Join(d, "mtu"), []byte("1500\n"), 0o600))
			for _, f := range files {
				must(t, os.Mkdir(filepath.Join(d, f), 0o700))
			}
		}
	}
	sock := filepath.Join(dir, "sock")
	ga := append([]string{"qemu-ga", "-m", "unix-listen", "-p", sock, "-t", dir, "-f", filepath.Join(dir, "pid")}, args...)
	set = append(set, "set +e", "while :; do "+strings.Join(ga, " ")+"; rm -f "+sock+" "+filepath.Join(dir, "pid")+"; sleep 0.1; done")
	g := &realGuest{t: t, shaper: NewShaper(socket(sock))}
	g.shaper.sys = filepath.Join(dir, "net")
	g.wire = child(t, unix.CLONE_NEWNET, "sleep", "1000000")
	g.init = child(t, unix.CLONE_NEWNET|unix.CLONE_NEWNS|unix.CLONE_NEWPID, "sh", "-c", strings.Join(set, "\n"))
	g.waitAgent()
	for i := range nics {
		g.host("ip", "link", "set", fmt.Sprintf("w%d", i), "netns", strconv.Itoa(g.wire))
		wire(t, g.wire, fmt.Sprintf("ip addr add 192.0.%d.2/24 dev w%d", i, i))
		wire(t, g.wire, fmt.Sprintf("ip link set w%d up", i))
	}
	return g
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// child runs a command in namespaces of its own until the test ends.
func child(t testing.TB, flags uintptr, name string, args ...string) int {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func (g *realGuest) waitAgent() {
	g.t.Helper()
	var nothing struct{}
	g.eventually("qemu-ga answers", func() bool {
		return g.shaper.c.do(within(g.t, patience), vm, "guest-ping", nil, &nothing) == nil
	})
}

// eventually waits until the condition holds.
func (g *realGuest) eventually(what string, holds func() bool) {
	g.t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			g.t.Fatalf("not within %s: %s\n%s", patience, what, g.tc("-d class show dev m0"))
		}
	}
}

// host runs a command in the guest's network.
func (g *realGuest) host(words ...string) string {
	g.t.Helper()
	out, err := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(g.init), "-n"}, words...)...).CombinedOutput()
	if err != nil {
		g.t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

func wire(t testing.TB, pid int, line string) {
	t.Helper()
	out, err := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(pid), "-n"}, strings.Fields(line)...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// tc runs tc in the guest.
func (g *realGuest) tc(line string) string {
	g.t.Helper()
	return g.host(append([]string{"tc"}, strings.Fields(line)...)...)
}

// ceil returns the rate that NIC i's class allows, such as "100Mbit"; "" if there is none.
func (g *realGuest) ceil(i int) string { return g.class(i, "51ce:2") }

func (g *realGuest) class(i int, id string) string {
	g.t.Helper()
	for line := range strings.Lines(g.tc("class show dev m" + strconv.Itoa(i))) {
		f := strings.Fields(line)
		for k := range f {
			if f[2] == id && f[k] == "ceil" {
				return f[k+1]
			}
		}
	}
	return ""
}

// qdisc returns kind and handle of NIC i's root qdisc.
func (g *realGuest) qdisc(i int) string {
	g.t.Helper()
	f := strings.Fields(g.tc("qdisc show dev m" + strconv.Itoa(i)))
	return f[1] + " " + f[2]
}

// leftovers returns the files in the guest's /run.
func (g *realGuest) leftovers() []string {
	g.t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/root/run", g.init))
	must(g.t, err)
	var out []string
	for _, f := range files {
		out = append(out, f.Name())
	}
	return out
}

// processes returns the PIDs on the host of those in the guest whose command line contains the word.
func (g *realGuest) processes(word string) []int {
	g.t.Helper()
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", g.init))
	must(g.t, err)
	var out []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		line, _ := os.ReadFile(d + "/cmdline")
		if its, err := os.Readlink(d + "/ns/net"); err == nil && its == ns && pid != g.init && strings.Contains(string(line), word) {
			out = append(out, pid)
		}
	}
	return out
}

// kill kills the guest's processes with that word and waits until they are gone.
func (g *realGuest) kill(word string, sig syscall.Signal) {
	g.t.Helper()
	pids := g.processes(word)
	if len(pids) == 0 {
		g.t.Fatalf("no process %q in the guest", word)
	}
	for _, pid := range pids {
		must(g.t, syscall.Kill(pid, sig))
	}
	g.eventually("the processes are gone", func() bool {
		for _, pid := range pids {
			if syscall.Kill(pid, 0) == nil && !zombie(pid) {
				return false
			}
		}
		return true
	})
}

func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}

// in runs fn in the network of a process: sockets made there stay there.
func in[T any](t testing.TB, pid int, fn func() (T, error)) T {
	t.Helper()
	// The thread goes back: if it ended, so would the processes that it started.
	runtime.LockOSThread()
	home := openNS(t, "/proc/thread-self/ns/net")
	defer unix.Close(home)
	there := openNS(t, fmt.Sprintf("/proc/%d/ns/net", pid))
	defer unix.Close(there)
	must(t, unix.Setns(there, unix.CLONE_NEWNET))
	v, err := fn()
	must(t, unix.Setns(home, unix.CLONE_NEWNET))
	runtime.UnlockOSThread()
	must(t, err)
	return v
}

func openNS(t testing.TB, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	return fd
}

// unread returns how many bytes wait in the pipe of NIC 0.
func (g *realGuest) unread() int {
	g.t.Helper()
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/root%s", g.init, g.shaper.of(channelKey{vm, nicMAC(0)}).path(channelKey{vm, nicMAC(0)}, "in")),
		unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	must(g.t, err)
	defer unix.Close(fd)
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	must(g.t, err)
	return n
}

// listen listens at the far end of NIC 0's wire, dial connects to it from inside the guest.
func (g *realGuest) listen() net.Listener {
	g.t.Helper()
	l := in(g.t, g.wire, func() (net.Listener, error) { return net.Listen("tcp", "192.0.0.2:0") })
	g.t.Cleanup(func() { _ = l.Close() })
	return l
}

func (g *realGuest) dial(network, to string) net.Conn {
	g.t.Helper()
	c := in(g.t, g.init, func() (net.Conn, error) { return net.DialTimeout(network, to, patience) })
	g.t.Cleanup(func() { _ = c.Close() })
	return c
}
