package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const childEnv = "SLUICE_BENCH_IN_NETNS"

// nsDir is where ip(8) keeps its named namespaces; here it is a file system private to this process.
const nsDir = "/run/netns"

// isolated reports whether this process was started by isolate.
func isolated() bool { return os.Getenv(childEnv) != "" }

// isolate runs this program again in network and mount namespaces of its own, under SCHED_RR if permitted, and returns its exit code.
// The namespaces end with the program, however it ends.
func isolate() int {
	runtime.LockOSThread() // the child inherits this thread's scheduling
	env := []string{childEnv + "=1"}
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 10}, 0); err != nil {
		fmt.Fprintln(os.Stderr, "bench: no SCHED_RR, so other load on this machine will show:", err)
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1)
	}
	fmt.Fprintln(os.Stderr, "bench: cannot make namespaces (run as root):", err)
	return 1
}

// enter makes /sys show the new network namespace, and mounts a private nsDir for ip(8).
func enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private (in a plain chroot, where / is not a mount point, that cannot be: use pivot_root): %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount sysfs: %w", err)
	}
	if err := unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, "mode=0700"); err != nil {
		return fmt.Errorf("mount a BPF file system: %w", err)
	}
	if err := os.MkdirAll(nsDir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("netns", nsDir, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount a file system on %s: %w", nsDir, err)
	}
	return nil
}

// inNS runs f on a thread in the named namespace. Sockets and processes that f creates belong to that namespace.
func inNS(name string, f func() error) error {
	there, err := os.Open(filepath.Join(nsDir, name))
	if err != nil {
		return err
	}
	defer there.Close()
	runtime.LockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer here.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter namespace %s: %w", name, err)
	}
	err = f()
	if back := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back) // the thread stays locked, so it ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

// sysctl sets a variable in the network namespace of the current thread.
func sysctl(name, value string) error {
	return os.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0)
}

// batch feeds lines to `ip -batch` or `tc -batch` in the namespace of the current thread.
func batch(tool string, lines ...string) error {
	cmd := exec.Command(tool, "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s -batch: %w\n%s", tool, err, out)
	}
	return nil
}
