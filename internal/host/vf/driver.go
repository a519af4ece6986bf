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

// pollDriver is how often WaitDriver looks. A look costs a few dozen microseconds.
const pollDriver = 50 * time.Millisecond

// settleDriver is how long a VF with nothing but its first interrupt must stay so to
// count as open; see driverOpen.
const settleDriver = 2 * time.Second

// DriverOpen says whether a guest driver has opened the VF: it has interrupts routed
// through vfio. Unknown without an error means that only the first is routed.
func (h *Functions) DriverOpen(ctx context.Context, addr model.PCIAddress) (model.Tri, error) {
	if err := ctx.Err(); err != nil {
		return model.Unknown, sysif.Fail("look for the guest driver of", string(addr), err)
	}
	open, err := driverOpen(h.k.Sys, h.k.Proc, addr)
	return open, sysif.Fail("look for the guest driver of", string(addr), err)
}

// WaitDriver waits until a guest driver has opened the VF, or has closed it, looking again
// and again. When ctx ends first the error wraps model.ErrGuest and the context's error.
func (h *Functions) WaitDriver(ctx context.Context, addr model.PCIAddress, open bool) error {
	w := driverWait{want: model.TriOf(open), settle: settleDriver}
	look := func() (model.Tri, error) { return h.DriverOpen(ctx, addr) }
	if err := w.wait(ctx, look); err != nil {
		verb := "close"
		if open {
			verb = "open"
		}
		return sysif.Fail("wait for the guest driver to "+verb, string(addr), err)
	}
	return nil
}

// pollEnabled is how often WaitEnabled looks: a guest's driver may come a tenth of a second after QEMU.
const pollEnabled = 20 * time.Millisecond

// WaitEnabled waits until a VF on vfio-pci is enabled, which it is from when a process has it open:
// QEMU does some time before the guest's driver does, which is what DriverOpen tells.
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
	since  time.Time // when the run of Unknown began, zero: none
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

// settled takes an Unknown that lasts as open.
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

// driverOpen looks at the VF's interrupts. vfio requests one for each vector that the
// guest unmasks: drivers do that when they are ready to be interrupted. But QEMU may
// enable the first vector by itself when the guest merely switches MSI-X on, so the first
// alone may mean that the driver is only about to open: Unknown. (With a single vCPU a
// few drivers never use a second one.)
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
	// The last vector is most likely one that only a guest's driver asks for: this is read
	// for every VF at every sample, and one file is usually enough.
	for _, irq := range slices.Backward(irqs) {
		// An interrupt that was freed meanwhile has no file, and no action.
		actions, _ := sys.Text(path.Join("kernel/irq", irq, "actions"))
		if v.add(actions); v.open() == model.Yes {
			break
		}
	}
	return v.open(), nil
}

// fromInterrupts looks in /proc/interrupts, for kernels without /sys/kernel/irq.
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

// vectors counts the vectors that vfio has requested.
type vectors struct {
	first, others, plain bool
}

// add takes the actions of one interrupt, such as "vfio-msix[2](0000:01:10.0)".
func (v *vectors) add(actions string) {
	switch {
	case strings.Contains(actions, "vfio-msix[0]"):
		v.first = true
	case strings.Contains(actions, "vfio-msix["):
		v.others = true
	case strings.Contains(actions, "vfio-msi["):
		// Plain MSI is not enabled before the driver wants it.
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
