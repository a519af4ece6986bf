package wholetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/api/v1"
	"sluice/internal/edge/client"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// wireMAC is the address of somebody behind the wire.
var wireMAC = kerneltest.MAC("52:54:00:00:00:77")

// site is a host with a NIC, a bridge, a VM, libvirtd, and the daemon as a process, while frames come for the guest from another port of the
// bridge (p) and from the wire (w), and the guest sends (g).
type site struct {
	t      *testing.T
	dir    string
	fabric *fabric
	nic    *nic
	virt   *libvirtd
	guest  *guest
	peer   *kerneltest.Port
	api    *client.Client
	moves  func() []span // of the guest's port

	cmd     *exec.Cmd
	log     *os.File
	died    chan struct{}
	changes changes

	fromPeer, fromWire, fromGuest flow
	senders                       sync.WaitGroup
	stop                          chan struct{}
	silent                        sync.Once
	slow                          float64 // how many times longer than on an idle machine things have taken at most

	mu   sync.Mutex
	got  map[int][]time.Time // when the peer received each of the guest's frames
	last int
}

const config = `mode: enforce
policy: none
sample: 200ms
interval: 1s
pfs: [{name: pf0, vfs: all}]
guest_agent: {enabled: false}
moves: {backoff: 1s, backoff_max: 2s}
state_dir: %[1]s/state
libvirt: {uri: "qemu:///system?socket=%[1]s/libvirt"}
api: {socket: %[1]s/s, group: ""}
`

func newSite(t *testing.T, f *fabric) *site {
	dir, err := os.MkdirTemp("", "slw") // short: the length of a socket's path is limited
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &site{t: t, dir: dir, fabric: f, got: map[int][]time.Time{}, stop: make(chan struct{})}
	f.make(t)
	if f.moves != nil {
		s.moves = f.moves(t)
	}
	s.nic = newNIC(t, dir, s.changes.next)
	if f.wire {
		f.join(t, "pf0")
	}
	s.guest = newGuest(t, s.nic, f)
	s.peer = kerneltest.NewPort(t, "tap1", "")
	f.join(t, "tap1")
	kerneltest.IP(t, "link set tap1 txqueuelen 10000")
	s.virt = newLibvirtd(t, dir, s.changes.next, s.guest)
	kerneltest.Must(t, os.WriteFile(filepath.Join(dir, "sluice.yaml"), fmt.Appendf(nil, config, dir), 0o600))
	s.api = client.New(filepath.Join(dir, "s"))
	s.log, err = os.Create(filepath.Join(dir, "log"))
	kerneltest.Must(t, err)
	t.Cleanup(func() {
		if text, _ := os.ReadFile(s.log.Name()); t.Failed() {
			t.Logf("the daemon's log ends:\n%s", text[max(0, len(text)-6000):])
		}
		_ = s.log.Close()
	})
	s.start()
	t.Cleanup(func() { s.kill() })
	s.traffic()
	return s
}

// start starts the daemon.
func (s *site) start() {
	s.t.Helper()
	s.cmd = exec.Command("/proc/self/exe")
	s.cmd.Env = append(os.Environ(), daemonEnv+"="+s.dir)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	kerneltest.Must(s.t, s.cmd.Start())
	cmd, died := s.cmd, make(chan struct{})
	s.died = died
	go func() { _ = cmd.Wait(); close(died) }()
}

// kill kills the daemon.
func (s *site) kill() {
	_ = s.cmd.Process.Kill()
	<-s.died
}

// quit ends the daemon as systemd does.
func (s *site) quit() {
	s.t.Helper()
	kerneltest.Must(s.t, s.cmd.Process.Signal(syscall.SIGTERM))
	s.awaitEnd()
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		s.t.Errorf("the daemon ended with code %d", code)
	}
}

func (s *site) awaitEnd() {
	s.t.Helper()
	select {
	case <-s.died:
	case <-time.After(time.Minute):
		s.t.Fatal("the daemon does not end")
	}
}

// want asks for the VF, or for none, and waits until it is so and nothing is left to do.
func (s *site) want(vf bool) {
	s.t.Helper()
	s.ask(vf)
	s.settled(vf)
}

func (s *site) ask(vf bool) {
	s.t.Helper()
	verb := api.VerbRelease
	if vf {
		verb = api.VerbPin
	}
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // it may be starting
		if _, err = s.api.Do(s.t.Context(), verb, api.Request{VM: vmName, Reason: "test"}); err == nil {
			return
		}
	}
	s.t.Fatalf("%s: %v", verb, err)
}

// settled waits until the VM has the VF, or none, and everything agrees with that.
func (s *site) settled(vf bool) {
	s.t.Helper()
	s.settles(func() bool { return vf })
}

func (s *site) settles(vf func() bool) {
	s.t.Helper()
	var why string
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if why = s.differs(vf()); why == "" {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("it does not come to rest: %s", why)
		}
	}
}

// differs returns what is not as it should be.
func (s *site) differs(vf bool) string {
	name, port, mac := "", "tap0", model.MAC{}
	if vf {
		name, port, mac = "pf0/0", s.nic.representor(), kerneltest.Guest
	}
	status, err := s.api.Status(s.t.Context())
	if err != nil {
		return err.Error()
	}
	vms, err := s.api.VMs(s.t.Context())
	if err != nil {
		return err.Error()
	}
	fsck, err := s.api.Fsck(s.t.Context())
	switch {
	case err != nil:
		return err.Error()
	case len(vms) != 1 || vms[0].VF != name || vms[0].UnderWay != "":
		return fmt.Sprintf("the VMs are %+v", vms)
	case status.Error != "" || status.Moves.Active+status.Moves.Pending+status.Findings > 0 || len(fsck.Findings) > 0:
		return fmt.Sprintf("status %+v, findings %+v", status, fsck.Findings)
	case !s.guest.seen(fsck.Observed):
		return "the daemon has not looked since the guest opened or closed its VF"
	case s.guest.listens() != vf || s.virt.holds("") != vf:
		return fmt.Sprintf("the guest listens on its VF: %v", s.guest.listens())
	case s.nic.mac() != mac:
		return fmt.Sprintf("the VF has MAC %s", s.nic.mac())
	}
	if at := s.fabric.routes(s.t); !slices.Equal(at, []string{port}) && (vf || len(at) > 0 || !s.fabric.learns) {
		return fmt.Sprintf("the switch sends the guest's frames to %v, not %s", at, port)
	}
	if left := s.dualPaths(); len(left) > 0 {
		return fmt.Sprintf("dual paths are left: %v", left)
	}
	return ""
}

// dualPaths returns the pins of the programs of dual paths.
func (s *site) dualPaths() []string {
	pins, err := filepath.Glob(filepath.Join(s.dir, "sys/fs/bpf/*/mirrors/*"))
	kerneltest.Must(s.t, err)
	return pins
}

// fedBoth reports whether the daemon has seen that the guest does not use its VF, and has made both paths receive.
func (s *site) fedBoth() bool {
	if len(s.dualPaths()) == 0 || !slices.Equal(s.fabric.routes(s.t), []string{"tap0"}) {
		return false
	}
	status, err := s.api.Status(s.t.Context())
	return err == nil && status.Moves.Active+status.Moves.Pending+status.Findings == 0
}

// ends waits until what was to be done before a change is done and has ended the daemon, and the next one has done what was asked for;
// false: so many changes were not needed.
func (s *site) ends(vf bool) bool {
	s.t.Helper()
	var why string
	for end := time.Now().Add(time.Minute); !s.changes.reached(); time.Sleep(5 * time.Millisecond) {
		if why = s.differs(vf); why == "" {
			s.changes.before(0, nil)
			return false
		}
		if time.Now().After(end) {
			s.t.Fatalf("it neither ends nor comes to rest: %s", why)
		}
	}
	s.awaitEnd()
	s.changes.before(0, nil)
	s.start()
	s.settled(vf)
	return true
}

// changes counts what the daemon changes, and does something before one of them.
type changes struct {
	mu    sync.Mutex
	count int
	at    int // 0: before none
	do    func() error
}

func (c *changes) next() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	if c.count == c.at {
		return c.do()
	}
	return nil
}

// before begins to count, and has something done before that change.
func (c *changes) before(at int, do func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count, c.at, c.do = 0, at, do
}

// reached reports whether that change was reached.
func (c *changes) reached() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at > 0 && c.count >= c.at
}
