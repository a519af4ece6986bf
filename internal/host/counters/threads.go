package counters

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// TapProcess returns the process that has a tap open: the VM's QEMU.
func (h *Counting) TapProcess(ctx context.Context, tap string) (pid int, err error) {
	const op = "find the process of"
	for _, name := range h.k.Proc.List(".") {
		n, numErr := strconv.Atoi(name)
		if numErr != nil || !h.opens(name, tap) {
			continue
		}
		if pid != 0 {
			return 0, sysif.Fail(op, tap, fmt.Errorf("two have it open, %d and %d", pid, n))
		}
		pid = n
	}
	if err := ctx.Err(); err != nil {
		return 0, sysif.Fail(op, tap, err)
	}
	if pid == 0 {
		return 0, sysif.Fail(op, tap, fmt.Errorf("%w: none has it open", model.ErrGone))
	}
	return pid, nil
}

// opens reports whether a process has a tap open. A process that ends meanwhile does not.
func (h *Counting) opens(pid, tap string) bool {
	for _, fd := range h.k.Proc.List(pid + "/fd") {
		if h.k.Proc.Target(path.Join(pid, "fd", fd)) != "tun" {
			continue
		}
		text, _ := h.k.Proc.Text(path.Join(pid, "fdinfo", fd))
		for line := range strings.Lines(text) {
			if name, is := strings.CutPrefix(line, "iff:"); is && strings.TrimSpace(name) == tap {
				return true
			}
		}
	}
	return false
}

// Threads maps thread IDs to the CPU time used since their start.
type Threads map[int]time.Duration

// Since returns the CPU time used by all threads since before. It misses threads that have ended.
func (t Threads) Since(before Threads) (sum time.Duration) {
	for id, now := range t {
		sum += max(0, now-before[id])
	}
	return sum
}

// VirtioThreads returns the threads that process a VM's virtio on the host: those of its QEMU process except for virtual CPUs,
// and its vhost workers, which are threads of that process or of the kernel. It misses interrupts, whose time the kernel adds to
// the interrupted thread.
func (h *Counting) VirtioThreads(ctx context.Context, pid int) (Threads, error) {
	const op = "read the CPU time of process"
	out := Threads{}
	err := errors.Join(ctx.Err(), h.threads(strconv.Itoa(pid), out))
	for _, name := range h.k.Proc.List(".") {
		if _, numErr := strconv.Atoi(name); numErr != nil {
			continue
		}
		if comm, _ := h.k.Proc.Text(name + "/comm"); comm == fmt.Sprintf("vhost-%d", pid) && err == nil {
			err = h.threads(name, out)
		}
	}
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%w: it has no threads other than virtual CPUs", model.ErrGone)
	}
	return out, sysif.Fail(op, strconv.Itoa(pid), err)
}

// virtualCPU begins the name of virtual CPU threads, as in "CPU 0/KVM", if libvirt starts QEMU.
const virtualCPU = "CPU "

// threads adds the threads of a process.
func (h *Counting) threads(pid string, out Threads) error {
	for _, task := range h.k.Proc.List(pid + "/task") {
		dir := path.Join(pid, "task", task)
		comm, err := h.k.Proc.Text(dir + "/comm")
		if err != nil || strings.HasPrefix(comm, virtualCPU) {
			continue // has ended, or processes no virtio
		}
		text, err := h.k.Proc.Text(dir + "/schedstat")
		if err != nil {
			if !h.k.Proc.Exists(dir) {
				continue
			}
			return fmt.Errorf("%w: %s: the kernel has no CONFIG_SCHED_INFO", err, dir)
		}
		// The first field is the time on a CPU in ns.
		first, _, _ := strings.Cut(text, " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		id, numErr := strconv.Atoi(task)
		if err := errors.Join(err, numErr); err != nil {
			return fmt.Errorf("%s/schedstat: %w", dir, err)
		}
		out[id] = time.Duration(ns)
	}
	return nil
}
