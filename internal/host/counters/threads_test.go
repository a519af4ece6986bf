package counters

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// openTap creates a tap and keeps it open, as QEMU does.
func openTap(t *testing.T, name string) (close func()) {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	kerneltest.Must(t, err)
	req, err := unix.NewIfreq(name)
	kerneltest.Must(t, err)
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	kerneltest.Must(t, unix.IoctlIfreq(fd, unix.TUNSETIFF, req))
	return func() { kerneltest.Must(t, unix.Close(fd)) }
}

func TestTapProcess(t *testing.T) {
	h := newHost(t)
	name := fmt.Sprintf("tp%d", os.Getpid())
	gone := openTap(t, name)
	if pid, err := h.TapProcess(kerneltest.Soon(t), name); pid != os.Getpid() || err != nil {
		t.Errorf("%d, %v, want this process, %d", pid, err, os.Getpid())
	}
	if pid, err := h.TapProcess(kerneltest.Soon(t), name[:len(name)-1]); pid != 0 || !errors.Is(err, model.ErrGone) {
		t.Errorf("%d, %v of a tap of which there is only a longer one", pid, err)
	}
	gone()
	if pid, err := h.TapProcess(kerneltest.Soon(t), name); pid != 0 || !errors.Is(err, model.ErrGone) {
		t.Errorf("%d, %v of a tap that is closed", pid, err)
	}
}

// thread starts a thread of that name, which uses that much CPU time and then waits for the end of the test.
func thread(t *testing.T, name string, takes time.Duration) {
	t.Helper()
	ended, taken := make(chan struct{}), make(chan error)
	t.Cleanup(func() { close(ended) })
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
		b, _ := unix.BytePtrFromString(name)
		err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(b)), 0, 0, 0)
		var begin, now unix.Timespec // the thread may have done other work before
		err = errors.Join(err, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &begin))
		for now = begin; err == nil && now.Nano()-begin.Nano() < int64(takes); {
			err = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
		}
		taken <- err
		<-ended
	}()
	kerneltest.Must(t, <-taken)
}

// TestVirtioThreads checks that virtual CPU threads are excluded, and QEMU's other threads and the kernel's vhost workers are
// included.
func TestVirtioThreads(t *testing.T) {
	h := newHost(t)
	look := func() Threads {
		t.Helper()
		now, err := h.VirtioThreads(kerneltest.Soon(t), os.Getpid())
		kerneltest.Must(t, err)
		return now
	}
	process := func() time.Duration {
		t.Helper()
		var all unix.Timespec
		kerneltest.Must(t, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &all))
		return time.Duration(all.Nano())
	}
	began := process() // before the first look, as ended is after the last: looking takes CPU time itself
	before := look()
	const carried, own = 150 * time.Millisecond, 300 * time.Millisecond
	thread(t, fmt.Sprintf("vhost-%d", os.Getpid()), carried)
	thread(t, "CPU 0/KVM", own)
	after := look()
	ended := process()
	// Both clocks are the scheduler's, which updates them at its ticks and switches.
	const tick = 20 * time.Millisecond
	if got := after.Since(before); got < carried-tick || got > ended-began-own+tick {
		t.Errorf("%s, want %s at least, and no more than what the process took, %s, without the virtual CPU's %s", got, carried, ended-began, own)
	}
	if got := after.Since(after); got != 0 {
		t.Errorf("nothing took %s", got)
	}

	// A vhost worker may be a kernel thread, which a program of that name simulates.
	cmd := exec.Command("sh", "-c", `printf vhost-$1 >/proc/$$/comm; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; echo; read -r _`, "sh",
		fmt.Sprint(os.Getpid()))
	in, err := cmd.StdinPipe()
	kerneltest.Must(t, err)
	out, err := cmd.StdoutPipe()
	kerneltest.Must(t, err)
	kerneltest.Must(t, cmd.Start())
	defer func() { kerneltest.Must(t, errors.Join(in.Close(), ignoreExit(cmd.Wait()))) }()
	_, err = out.Read(make([]byte, 1))
	kerneltest.Must(t, err)
	now := look()
	if worker := now[cmd.Process.Pid]; worker <= 0 {
		t.Errorf("the worker of the kernel took %s of CPU time, by %v", worker, now)
	}
}

// ignoreExit ignores the exit status of a command.
func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

func TestVirtioThreadsOfNobody(t *testing.T) {
	h := newHost(t)
	if got, err := h.VirtioThreads(kerneltest.Soon(t), 1<<30); !errors.Is(err, model.ErrGone) || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
	// A kernel without CONFIG_SCHED_INFO must be distinguished from a thread that has ended.
	h.k.Proc.FS = noSchedstat{h.k.Proc.FS}
	if _, err := h.VirtioThreads(kerneltest.Soon(t), os.Getpid()); err == nil || !strings.Contains(err.Error(), "CONFIG_SCHED_INFO") {
		t.Errorf("%v", err)
	}
}

// noSchedstat simulates a kernel without CONFIG_SCHED_INFO.
type noSchedstat struct{ sysif.Files }

func (f noSchedstat) ReadFile(name string) ([]byte, error) {
	if strings.HasSuffix(name, "/schedstat") {
		return nil, os.ErrNotExist
	}
	return f.Files.ReadFile(name)
}
