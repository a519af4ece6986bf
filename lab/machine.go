package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

const (
	memory      = "4G"
	kernelFlags = "console=ttyS0 quiet loglevel=4 panic=-1 intel_iommu=on iommu=pt mitigations=off init_on_alloc=0 " +
		"nowatchdog random.trust_cpu=on tsc=reliable no_timer_check " +
		"iomem=relaxed" // lets VFCounters map the PF's registers
)

// machine is the QEMU process that is the host under test.
type machine struct {
	image string // directory of the built image
	tree  string // root file system that holds QEMU
	dir   string // run directory: sockets, console
	disk  string // qcow2 file
	port  int    // of ssh, on the loopback device
	pid   int
	done  chan struct{} // closed when QEMU has ended; nil if it is not a child of this process
}

// qemu prepares to run a program of the root file system with that system's own dynamic loader: the machine needs no QEMU of its own,
// and the version is always the lab's.
func qemu(tree, program string, args ...string) *exec.Cmd {
	lib := filepath.Join(tree, "usr/lib/x86_64-linux-gnu")
	loader := []string{"--library-path", lib + ":" + lib + "/pulseaudio", filepath.Join(tree, "usr/bin", program)}
	cmd := exec.Command(filepath.Join(tree, "lib64/ld-linux-x86-64.so.2"), append(loader, args...)...)
	cmd.Env = append(os.Environ(), "QEMU_MODULE_DIR="+lib+"/qemu")
	return cmd
}

// newDisk makes a copy-on-write disk over base.
func newDisk(ctx context.Context, tree, base, format, path string) error {
	cmd := qemu(tree, "qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", format, path)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make disk: %w: %s", err, out)
	}
	return ctx.Err()
}

func (m *machine) args(state string) []string {
	share := func(path string) string { return filepath.Join(m.tree, "usr", path) }
	args := []string{
		"-L", share("share/qemu"), "-L", share("share/seabios"), "-L", share("lib/ipxe/qemu"),
		"-name", "sluice-lab", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		// One CPU: emulated virtualization does not survive two.
		"-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max,+svm", "-smp", "1", "-m", memory,
		"-machine", "q35,kernel-irqchip=off", "-device", "intel-iommu,intremap=on,caching-mode=on",
		"-kernel", m.image + "/vmlinuz", "-initrd", m.image + "/initrd", "-append", kernelFlags,
		"-chardev", "file,id=console,append=on,path=" + m.dir + "/console.log", "-serial", "chardev:console",
		"-qmp", "unix:" + m.dir + "/qmp,server=on,wait=off",
		// Nothing on a lab's disk needs to survive a crash.
		"-drive", "if=none,id=disk,format=qcow2,cache=unsafe,discard=unmap,file=" + m.disk,
		"-device", "virtio-blk-pci,drive=disk", "-device", "virtio-rng-pci",
		"-netdev", fmt.Sprintf("user,id=mgmt,hostfwd=tcp:127.0.0.1:%d-:22", m.port),
		"-device", "virtio-net-pci,netdev=mgmt,mac=52:54:00:ff:00:01,romfile=",
	}
	// Each PF shares a hub, which is its wire, with the NIC of an outside host.
	for i := 1; i <= 2; i++ {
		args = append(args,
			"-netdev", fmt.Sprintf("hubport,hubid=%d,id=wire%d", i, i),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=wire%d,mac=52:54:00:ee:00:%02d,romfile=", i, i),
			"-device", fmt.Sprintf("pcie-root-port,id=port%d,chassis=%d,slot=%d", i, i, i),
			"-netdev", fmt.Sprintf("hubport,hubid=%d,id=pf%d", i, i),
			"-device", fmt.Sprintf("igb,bus=port%d,id=igb%d,netdev=pf%d,mac=52:54:00:aa:00:%02d,romfile=", i, i, i, i))
	}
	if state != "" {
		args = append(args, "-incoming", "file:"+state)
	}
	return args
}

// start runs QEMU. A detached machine outlives this process; any other ends with it, however it ends. QEMU inherits the slots, so that
// their locks last as long as the machine.
func (m *machine) start(ctx context.Context, state string, detached bool, slots ...*os.File) error {
	var err error
	// The port is free now, but another may take it before QEMU does.
	for range 5 {
		if m.port, err = freePort(); err != nil {
			return err
		}
		if err = m.launch(ctx, state, detached, slots); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return err
}

func (m *machine) launch(ctx context.Context, state string, detached bool, slots []*os.File) error {
	os.Remove(m.dir + "/qmp")
	cmd := qemu(m.tree, "qemu-system-x86_64", m.args(state)...)
	log, err := os.Create(m.dir + "/qemu.log")
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = slots
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if !detached {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	started := make(chan error, 1)
	m.done = make(chan struct{})
	go func() {
		// The death signal is sent when the thread that forked ends, so this thread has to last as long as QEMU. Then it goes too,
		// because of the priority that QEMU is to inherit: a starved lab times out.
		runtime.LockOSThread()
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, -10) // only root may
		defer close(m.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // qemu.log shows how it ended
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	m.pid = cmd.Process.Pid
	_ = os.WriteFile(m.dir+"/pid", []byte(strconv.Itoa(m.pid)), 0o644) // for sweep
	// With autogroups priorities count inside a session only; QEMU has one of
	// its own, and this is the session's. Not every kernel has them.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", m.pid), []byte("-10"), 0)
	return Eventually(ctx, 30*time.Second, "QEMU's monitor", func() (bool, error) {
		select {
		case <-m.done:
			text, _ := os.ReadFile(log.Name())
			return false, Fatal(fmt.Errorf("qemu ended at once: %s", text))
		default:
		}
		_, err := os.Stat(m.dir + "/qmp")
		return err == nil, err
	})
}

// stop kills QEMU without a shutdown: the disk is discarded.
func (m *machine) stop(ctx context.Context) error {
	mon, err := dialQMP(ctx, m.dir+"/qmp")
	if err == nil {
		err = mon.do(ctx, "quit", nil, nil)
		mon.close()
	}
	gone := func() (bool, error) { return m.ended(), nil }
	if Eventually(ctx, 10*time.Second, "end of qemu", gone) == nil {
		return nil
	}
	if m.done == nil {
		return errors.Join(fmt.Errorf("qemu (process %d) does not quit", m.pid), err)
	}
	_ = syscall.Kill(m.pid, syscall.SIGKILL)
	<-m.done
	return errors.Join(errors.New("qemu did not quit and was killed"), err)
}

// ended reports whether QEMU has ended.
func (m *machine) ended() bool {
	if m.done == nil { // another process's child
		return syscall.Kill(m.pid, 0) != nil
	}
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
