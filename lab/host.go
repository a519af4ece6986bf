package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sluice/lab/cache"
)

// AllGuests are the guests defined on the host. All may run at once while they are idle. Use at most two where times or losses matter,
// since traffic is expensive under emulation.
var AllGuests = []string{"vm1", "vm2", "vm3", "vm4", "vm5", "vm6", "vm7"}

// Options configures a lab.
type Options struct {
	// Guests are resumed and answer when Open returns; the others stay suspended. See [Host.Resume] for later ones.
	Guests []string
	// ArtifactDir receives logs. Empty: a new temporary directory.
	ArtifactDir string
	// Progress, if not nil, receives progress messages.
	Progress io.Writer
	// Systemd is for a host whose PID 1 is systemd, as on Debian. Only vm1 and vm2 are booted there, and the host itself boots more
	// slowly.
	Systemd bool
	// Alone waits until no other lab runs on this machine, and keeps others from starting.
	Alone bool
	// Detached leaves the host running when this process ends; see [Attach].
	Detached bool
}

// Host is the host under test. Its methods may be called concurrently. Every call ends with its context, and
// after some minutes in any case.
type Host struct {
	// ArtifactDir is the directory of this lab's logs.
	ArtifactDir string

	dir     string // run directory
	machine *machine
	ssh     *remote
	serial  atomic.Int64 // numbers processes and ports

	mu     sync.Mutex
	agents map[string]*GuestAgent
}

// upFile names the detached host in the cache.
const upFile = "up.json"

// record is what Attach needs to find a detached host.
type record struct {
	Dir, Image, Tree, ArtifactDir string
	Port, Pid                     int
}

// Open resumes the host from its snapshot on a disk of its own, after building both if necessary, and prepares the requested guests.
func Open(ctx context.Context, o Options) (*Host, error) {
	img, err := buildFor(ctx, o)
	if err != nil {
		return nil, err
	}
	room, err := roomFor(ctx, o)
	if err != nil {
		return nil, err
	}
	defer cache.Close(room) // QEMU has its own descriptors
	// Resuming emulated virtualization fails now and then. Retrying the set-up is fair: no assertion has been made yet.
	for try := range 3 {
		var h *Host
		if h, err = open(ctx, img, o, room); err == nil {
			return h, nil
		}
		if ctx.Err() != nil {
			break
		}
		cache.Say(o.Progress, "try %d to set up: %v", try+1, err)
	}
	return nil, err
}

// roomFor waits until the lab may start.
func roomFor(ctx context.Context, o Options) ([]*os.File, error) {
	if o.Alone {
		return cache.AllSlots(ctx, o.Progress)
	}
	room, err := cache.Slot(ctx, o.Progress)
	return []*os.File{room}, err
}

func open(ctx context.Context, img image, o Options, room []*os.File) (_ *Host, err error) {
	start := time.Now()
	dir, err := runDir()
	if err != nil {
		return nil, err
	}
	h := newHost(&machine{image: img.dir, tree: img.tree, dir: dir, disk: dir + "/disk.qcow2"}, o.ArtifactDir)
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	if h.ArtifactDir == "" {
		h.ArtifactDir = filepath.Join(dir, "artifacts")
	}
	if err := os.MkdirAll(h.ArtifactDir, 0o755); err != nil {
		return nil, err
	}
	if err := newDisk(ctx, img.tree, img.dir+"/disk.qcow2", "qcow2", h.machine.disk); err != nil {
		return nil, err
	}
	if err := h.machine.start(ctx, img.dir+"/state", o.Detached, room...); err != nil {
		return nil, err
	}
	if err := h.resume(ctx); err != nil {
		return nil, err
	}
	h.ssh.port = h.machine.port
	if err := h.ssh.connect(ctx); err != nil {
		return nil, err
	}
	if err := h.syncClock(ctx); err != nil {
		return nil, err
	}
	cache.Say(o.Progress, "host resumed in %v", since(start))
	for _, vm := range o.Guests {
		if err := h.Resume(ctx, vm); err != nil {
			return nil, err
		}
	}
	cache.Say(o.Progress, "host and %d guests ready after %v", len(o.Guests), since(start))
	if o.Detached {
		return h, h.remember()
	}
	return h, nil
}

// runDir creates a run directory. It holds sockets, and the length of their paths is limited.
func runDir() (string, error) {
	base := os.TempDir()
	if len(base) > 60 {
		base = "/tmp"
	}
	sweep(base)
	return os.MkdirTemp(base, "sluice-lab-")
}

// sweep removes the disks of labs whose process was killed; the logs stay.
func sweep(base string) {
	pids, _ := filepath.Glob(filepath.Join(base, "sluice-lab-*", "pid"))
	for _, file := range pids {
		text, err := os.ReadFile(file)
		pid, perr := strconv.Atoi(string(text))
		if err == nil && perr == nil && syscall.Kill(pid, 0) != nil {
			os.Remove(filepath.Join(filepath.Dir(file), "disk.qcow2"))
		}
	}
}

func newHost(m *machine, artifacts string) *Host {
	return &Host{
		ArtifactDir: artifacts,
		dir:         m.dir,
		machine:     m,
		ssh:         &remote{key: m.image + "/key", socket: m.dir + "/ssh", port: m.port},
		agents:      map[string]*GuestAgent{},
	}
}

// resume starts the machine once its state is loaded.
func (h *Host) resume(ctx context.Context) error {
	mon, err := dialQMP(ctx, h.dir+"/qmp")
	if err != nil {
		return err
	}
	defer mon.close()
	err = Eventually(ctx, time.Minute, "loading the snapshot", func() (bool, error) {
		if h.machine.ended() {
			text, _ := os.ReadFile(h.dir + "/qemu.log")
			return false, Fatal(fmt.Errorf("the snapshot does not load: %s", text))
		}
		status, err := mon.status(ctx)
		return status == "paused", err
	})
	if err != nil {
		return err
	}
	return mon.do(ctx, "cont", nil, nil)
}

// Attach connects to the host that an earlier process opened with [Options.Detached].
func Attach(ctx context.Context) (*Host, error) {
	h, err := recall()
	if err != nil {
		return nil, err
	}
	mon, err := dialQMP(ctx, h.dir+"/qmp")
	if err != nil {
		return nil, fmt.Errorf("the lab that was up has ended: %w", err)
	}
	mon.close()
	// Another process may be attached too.
	h.ssh.socket = fmt.Sprintf("%s/ssh-%d", h.dir, os.Getpid())
	return h, h.ssh.connect(ctx)
}

// Down ends the host that an earlier process left running, even if it is dead.
func Down() error {
	h, err := recall()
	if err != nil {
		return err
	}
	return h.Close()
}

func recall() (*Host, error) {
	var r record
	if err := cache.Recall(upFile, &r, "labctl up"); err != nil {
		return nil, err
	}
	return newHost(&machine{image: r.Image, tree: r.Tree, dir: r.Dir, port: r.Port, pid: r.Pid}, r.ArtifactDir), nil
}

func (h *Host) remember() error {
	return cache.Remember(upFile, record{
		Dir: h.dir, Image: h.machine.image, Tree: h.machine.tree,
		ArtifactDir: h.ArtifactDir, Port: h.machine.port, Pid: h.machine.pid,
	})
}

// SSHArgs returns the arguments of an ssh command to the host, for a shell.
func (h *Host) SSHArgs() []string { return h.ssh.options() }

// Run runs a shell command on the host and returns its output. A nonzero exit code is an error that contains the command's error
// output.
func (h *Host) Run(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return h.ssh.run(ctx, command, nil)
}

// Put copies a local file to the host with its permissions. It replaces an existing file, even a running program.
func (h *Host) Put(ctx context.Context, local, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return h.ssh.put(ctx, local, path)
}

// WriteFile writes a file on the host.
func (h *Host) WriteFile(ctx context.Context, path, content string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	q := Quote(path)
	_, err := h.ssh.run(ctx, fmt.Sprintf("mkdir -p \"$(dirname %s)\" && cat >%s", q, q), strings.NewReader(content))
	return err
}

// Detach disconnects from the host and leaves it running.
func (h *Host) Detach() {
	h.closeAgents()
	if h.ssh.close != nil {
		h.ssh.close()
	}
}

// Close ends the host. Its files in ArtifactDir stay.
func (h *Host) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	h.Detach()
	var err error
	if h.machine.pid != 0 {
		err = h.machine.stop(ctx)
	}
	if h.machine.done == nil {
		cache.Forget(upFile)
	}
	if h.ArtifactDir != filepath.Join(h.dir, "artifacts") {
		h.saveConsole()
		os.RemoveAll(h.dir)
	} else {
		os.Remove(h.dir + "/disk.qcow2")
	}
	return err
}
