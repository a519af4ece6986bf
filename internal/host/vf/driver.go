package vf

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// pollDriver is the polling interval of WaitDriver. One check takes a few dozen microseconds.
const pollDriver = 50 * time.Millisecond

// settleDriver is how long a VF must have only its first interrupt requested to count as open; see driverOpen.
const settleDriver = 2 * time.Second

// DriverOpen reports whether a guest driver has opened the VF, which then has interrupts routed through vfio. Unknown without an
// error means that only the first is routed.
func (h *Functions) DriverOpen(ctx context.Context, addr model.PCIAddress) (model.Tri, error) {
	if err := ctx.Err(); err != nil {
		return model.Unknown, sysif.Fail("check the guest driver of", string(addr), err)
	}
	open, err := driverOpen(h.k.Sys, h.k.Proc, addr)
	return open, sysif.Fail("check the guest driver of", string(addr), err)
}

// WaitDriver polls until a guest driver has opened or closed the VF. If ctx ends first, the error wraps model.ErrGuest and the
// context's error.
func (h *Functions) WaitDriver(ctx context.Context, addr model.PCIAddress, open bool) error {
	w := driverWait{want: model.TriOf(open), settle: settleDriver}
	look := func() (model.Tri, error) { return h.DriverOpen(ctx, addr) }
	verb := "close"
	if open {
		verb = "open"
	}
	return sysif.Fail("wait for the guest driver to "+verb, string(addr), w.wait(ctx, look))
}

// pollEnabled is the polling interval of WaitEnabled: a guest's driver may open the VF a tenth of a second after QEMU.
const pollEnabled = 20 * time.Millisecond

// WaitEnabled waits until a VF on vfio-pci is enabled, that is, until a process has opened it. QEMU does so some time before the
// guest's driver, which DriverOpen detects.
func (h *Functions) WaitEnabled(ctx context.Context, addr model.PCIAddress) error {
	tick := time.NewTicker(pollEnabled)
	defer tick.Stop()
	for {
		enabled, err := h.k.Sys.Text(path.Join("bus/pci/devices", string(addr), "enable"))
		if err != nil || enabled != "0" {
			return sysif.Fail("wait until a process opens", string(addr), err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return sysif.Fail("wait until a process opens", string(addr), ctx.Err())
		}
	}
}

// driverWait is one call of WaitDriver.
type driverWait struct {
	want   model.Tri
	settle time.Duration
	since  time.Time // start of the current run of Unknown results, zero: none
}

func (w *driverWait) wait(ctx context.Context, look func() (model.Tri, error)) error {
	tick := time.NewTicker(pollDriver)
	defer tick.Stop()
	for {
		open, err := look()
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", model.ErrGuest, ctx.Err())
		}
		if err != nil || w.settled(open, time.Now()) == w.want {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// settled treats a lasting Unknown as open.
func (w *driverWait) settled(open model.Tri, now time.Time) model.Tri {
	switch {
	case open != model.Unknown:
		w.since = time.Time{}
	case w.since.IsZero():
		w.since = now
	case now.Sub(w.since) >= w.settle:
		return model.Yes
	}
	return open
}

// driverOpen checks the VF's interrupts. vfio requests one for each vector that the guest unmasks, which drivers do when they are
// ready for interrupts. But QEMU may enable the first vector on its own when the guest merely enables MSI-X. If only the first is
// requested, the driver may therefore be just about to open the VF: Unknown. (With a single vCPU a few drivers never use a second
// vector.)
func driverOpen(sys, proc sysif.Tree, addr model.PCIAddress) (model.Tri, error) {
	dev := sysif.PCIDir(addr)
	if !sys.Exists(dev) {
		return model.Unknown, fmt.Errorf("%w: no such PCI device", model.ErrGone)
	}
	irqs := sys.List(dev + "/msi_irqs")
	if len(irqs) == 0 {
		return model.No, nil
	}
	if !sys.Exists("kernel/irq") {
		return fromInterrupts(proc, addr)
	}
	var v vectors
	// Most likely only a guest's driver requests the last vector. Starting with it, one file is usually enough, which matters
	// because this runs for every VF at every sample.
	for _, irq := range slices.Backward(irqs) {
		// An interrupt freed meanwhile has no file and thus no actions.
		actions, _ := sys.Text(path.Join("kernel/irq", irq, "actions"))
		if v.add(actions); v.open() == model.Yes {
			break
		}
	}
	return v.open(), nil
}

// fromInterrupts evaluates /proc/interrupts, for kernels without /sys/kernel/irq.
func fromInterrupts(proc sysif.Tree, addr model.PCIAddress) (model.Tri, error) {
	text, err := proc.Text("interrupts")
	if err != nil {
		return model.Unknown, fmt.Errorf("neither /sys/kernel/irq nor /proc/interrupts: %w", errors.ErrUnsupported)
	}
	var v vectors
	for line := range strings.Lines(text) {
		if strings.Contains(line, "("+string(addr)+")") {
			v.add(line)
		}
	}
	return v.open(), nil
}

// vectors records which vectors vfio has requested.
type vectors struct {
	first, others, plain bool
}

// add evaluates the actions of one interrupt, such as "vfio-msix[2](0000:01:10.0)".
func (v *vectors) add(actions string) {
	switch {
	case strings.Contains(actions, "vfio-msix[0]"):
		v.first = true
	case strings.Contains(actions, "vfio-msix["):
		v.others = true
	case strings.Contains(actions, "vfio-msi["):
		// Plain MSI is enabled only on the driver's request.
		v.plain = true
	}
}

func (v vectors) open() model.Tri {
	switch {
	case v.others || v.plain:
		return model.Yes
	case v.first:
		return model.Unknown
	}
	return model.No
}
