package vpflab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sluice/lab"
	"sluice/lab/cache"
)

// Share is the directory that the host and all its guests share.
const Share = "/share"

// environment is that of commands on the host and in its guests.
var environment = []string{"PATH=" + Share + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8"}

// Options configures a lab.
type Options struct {
	// ArtifactDir receives logs. Empty: a new temporary directory.
	ArtifactDir string
	// Progress, if not nil, receives progress messages.
	Progress io.Writer
}

// Host is the host under test. Its methods may be called concurrently.
type Host struct {
	// ArtifactDir is the directory of this lab's logs.
	ArtifactDir string

	dir      string // run directory
	image    image
	progress io.Writer
	pid      int           // of the host's PID 1, as seen from outside
	done     chan struct{} // closed when that process has ended; nil if it is not a child of this process
	room     *os.File
	serial   atomic.Int64 // numbers programs

	mu     sync.Mutex
	agents map[string]*lab.GuestAgent
}

// Open starts a host without guests. All of it ends with Close, or with this process, however that ends.
func Open(ctx context.Context, o Options) (_ *Host, err error) {
	start := time.Now()
	img, err := build(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	h := &Host{ArtifactDir: o.ArtifactDir, image: img, progress: o.Progress, agents: map[string]*lab.GuestAgent{}}
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	if h.room, err = cache.Slot(ctx, o.Progress); err != nil {
		return nil, err
	}
	if h.dir, err = runDir(); err != nil {
		return nil, err
	}
	if h.ArtifactDir == "" {
		if h.ArtifactDir, err = os.MkdirTemp("", "vpflab-logs-"); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(h.ArtifactDir, 0o755); err != nil {
		return nil, err
	}
	if err := h.start(ctx); err != nil {
		return nil, err
	}
	cache.Say(o.Progress, "host ready after %v", time.Since(start).Round(10*time.Millisecond))
	return h, nil
}

// runDir creates a run directory, and removes those of labs whose process was killed.
func runDir() (string, error) {
	const base = "/tmp" // short: the length of Unix socket paths is limited
	pids, _ := filepath.Glob(base + "/vpflab-*/pid")
	for _, file := range pids {
		text, err := os.ReadFile(file)
		pid, perr := strconv.Atoi(string(text))
		if err == nil && perr == nil && syscall.Kill(pid, 0) != nil {
			os.RemoveAll(filepath.Dir(file))
		}
	}
	return os.MkdirTemp(base, "vpflab-")
}

// start starts the host's PID 1 and waits until libvirt answers.
func (h *Host) start(ctx context.Context) error {
	log, err := os.Create(filepath.Join(h.ArtifactDir, "host.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("bash", h.image.init, h.image.tree, h.dir, h.image.guest)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
	}
	h.done = make(chan struct{})
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // Pdeathsig watches the thread, not the process
		defer close(h.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // host.log shows how it ended
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("namespaces for the host (are you root?): %w", err)
	}
	h.pid = cmd.Process.Pid
	if err := os.WriteFile(h.dir+"/pid", []byte(strconv.Itoa(h.pid)), 0o644); err != nil {
		return err
	}
	return lab.Eventually(ctx, 2*time.Minute, "the host's libvirt", func() (bool, error) {
		text, err := os.ReadFile(log.Name())
		select {
		case <-h.done:
			return false, lab.Fatal(fmt.Errorf("the host ended at once: %s", text))
		default:
		}
		return bytes.Contains(text, []byte("LAB READY")), err
	})
}

// Path returns where a file under /run or /share of the host, such as a socket, is outside the host.
func (h *Host) Path(path string) string { return h.dir + path }

// Put copies a local file to /share/NAME, where the host and its guests can run it.
func (h *Host) Put(local, name string) error {
	data, err := os.ReadFile(local)
	if err != nil {
		return err
	}
	return h.write(Share+"/"+name, data, 0o755)
}

// WriteFile writes a file in the shared directory.
func (h *Host) WriteFile(name, content string) error {
	return h.write(Share+"/"+name, []byte(content), 0o644)
}

// write replaces a file by rename, since a running program cannot be overwritten.
func (h *Host) write(path string, data []byte, mode os.FileMode) error {
	to := h.Path(path)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(to+".new", data, mode); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// Command returns a shell command in the host's namespaces, not started yet; it ends with ctx.
func (h *Host) Command(ctx context.Context, script string) *exec.Cmd {
	enter := []string{"-t", strconv.Itoa(h.pid), "-m", "-n", "-p", "-u", "-i", "-r", "-w", "/usr/bin/env", "-i"}
	cmd := exec.CommandContext(ctx, "nsenter", slices.Concat(enter, environment, []string{"bash", "-c", script})...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // kill nsenter and its child
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// Run runs a shell command on the host and returns its output. A nonzero exit code is an error that contains the command's error
// output.
func (h *Host) Run(ctx context.Context, script string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return lab.Output(ctx, h.Command(ctx, script), script)
}

// Outside runs a shell command on the outside machine.
func (h *Host) Outside(ctx context.Context, script string) (string, error) {
	return h.Run(ctx, "ip netns exec ext bash -c "+lab.Quote(script))
}

// Release closes the connections to the guests' agents, each of which serves one connection at a time.
func (h *Host) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.agents {
		a.Close()
	}
}

// Close ends the host and everything that runs on it. Logs stay in ArtifactDir.
func (h *Host) Close() error {
	h.Release()
	if h.pid != 0 {
		_ = syscall.Kill(h.pid, syscall.SIGKILL) // ends the rest of its PID namespace too
		<-h.done
	}
	if h.room != nil {
		h.room.Close()
	}
	if h.dir == "" {
		return nil
	}
	h.saveLogs()
	return os.RemoveAll(h.dir)
}

// saveLogs keeps the logs of libvirt and QEMU, and the guests' consoles.
func (h *Host) saveLogs() {
	for _, pattern := range []string{"/upper/var/log/lab/*", "/upper/var/log/libvirt/*.log", "/upper/var/log/libvirt/qemu/*.log"} {
		files, _ := filepath.Glob(h.dir + pattern)
		for _, file := range files {
			if data, err := os.ReadFile(file); err == nil {
				_ = os.WriteFile(filepath.Join(h.ArtifactDir, filepath.Base(file)), data, 0o644)
			}
		}
	}
}
