package vf

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// irqs is a VF with vectors as in sysfs; "" is a vector that nobody requested.
func irqs(actions ...string) *kerneltest.Files {
	m := kerneltest.ParseTree("kernel/irq/1/actions = timer\nbus/pci/devices/0000:01:10.0/enable = 1\n")
	for i, a := range actions {
		m.Content[fmt.Sprintf("/bus/pci/devices/0000:01:10.0/msi_irqs/%d", 40+i)] = "msix"
		m.Content[fmt.Sprintf("/kernel/irq/%d/actions", 40+i)] = a
	}
	return m
}

func msix(i int) string { return fmt.Sprintf("vfio-msix[%d](0000:01:10.0)", i) }

func TestDriverOpen(t *testing.T) {
	for name, c := range map[string]struct {
		actions []string
		want    model.Tri
	}{
		"not in use":             {nil, model.No},
		"MSI-X on, not open":     {[]string{""}, model.No},
		"first vector by QEMU":   {[]string{msix(0)}, model.Unknown},
		"igbvf is up":            {[]string{msix(0), msix(1), msix(2)}, model.Yes},
		"first vector not used":  {[]string{"", msix(1)}, model.Yes},
		"plain MSI":              {[]string{"vfio-msi[0](0000:01:10.0)"}, model.Yes},
		"a driver of the host":   {[]string{"eth5-rx-0", "eth5-tx-0"}, model.No},
		"shared with the kernel": {[]string{"", "perf," + msix(3)}, model.Yes},
	} {
		t.Run(name, func(t *testing.T) {
			m := irqs(c.actions...)
			if got, err := driverOpen(m.Tree(), m.Tree(), vfAddr); err != nil || got != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestDriverOpenWhileInterruptsVanish(t *testing.T) {
	m := irqs(msix(0), msix(1))
	m.After = func(op, path string) {
		if op == "readdir" && strings.HasSuffix(path, "msi_irqs") {
			m.Remove("/kernel/irq/40")
			m.Remove("/kernel/irq/41")
		}
	}
	if got, err := driverOpen(m.Tree(), m.Tree(), vfAddr); err != nil || got != model.No {
		t.Errorf("got %s, %v; want no", got, err)
	}
}

const procInterrupts = `
           CPU0       CPU1
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 40:        101          0  PCI-MSIX-0000:01:10.0   0-edge      vfio-msix[0](0000:01:10.0)
 41:          7          3  PCI-MSIX-0000:01:10.0   1-edge      vfio-msix[1](0000:01:10.0)
 42:          7          3  PCI-MSIX-0000:01:10.2   0-edge      vfio-msix[0](0000:01:10.2)
NMI:          0          0   Non-maskable interrupts
`

func TestDriverOpenFromProcInterrupts(t *testing.T) {
	m := irqs("", "")
	m.Remove("/kernel")
	if _, err := driverOpen(m.Tree(), m.Tree(), vfAddr); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without any: %v, want errors.ErrUnsupported", err)
	}
	m.Content["/interrupts"] = procInterrupts
	if got, err := driverOpen(m.Tree(), m.Tree(), vfAddr); err != nil || got != model.Yes {
		t.Errorf("got %s, %v; want yes", got, err)
	}
	m.Content["/interrupts"] = strings.ReplaceAll(procInterrupts, "(0000:01:10.0)", "(0000:01:10.4)")
	if got, err := driverOpen(m.Tree(), m.Tree(), vfAddr); err != nil || got != model.No {
		t.Errorf("got %s, %v; want no", got, err)
	}
}

func TestDriverOpenOfDeviceThatIsGone(t *testing.T) {
	h := newHost(t)
	if _, err := h.DriverOpen(kerneltest.Soon(t), "ffff:00:1f.7"); !errors.Is(err, model.ErrGone) {
		t.Errorf("error %v, want model.ErrGone", err)
	}
	if err := h.WaitDriver(kerneltest.Soon(t), "ffff:00:1f.7", true); !errors.Is(err, model.ErrGone) {
		t.Errorf("error %v, want model.ErrGone", err)
	}
}

// looks returns the answers one after the other, and then repeats the last.
func looks(answers ...model.Tri) func() (model.Tri, error) {
	return func() (model.Tri, error) {
		a := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return a, nil
	}
}

func TestWaitDriver(t *testing.T) {
	for name, c := range map[string]struct {
		want model.Tri
		look func() (model.Tri, error)
	}{
		"opens":                    {model.Yes, looks(model.No, model.Unknown, model.Yes)},
		"stays at one vector":      {model.Yes, looks(model.No, model.Unknown)},
		"closes":                   {model.No, looks(model.Yes, model.Unknown, model.No)},
		"is closed":                {model.No, looks(model.No)},
		"closes after one remains": {model.No, looks(model.Yes, model.Unknown, model.Unknown, model.No)},
	} {
		t.Run(name, func(t *testing.T) {
			w := driverWait{want: c.want, settle: 3 * pollDriver}
			kerneltest.Must(t, w.wait(kerneltest.Soon(t), c.look))
		})
	}
}

func TestWaitDriverEndsWithContext(t *testing.T) {
	m := irqs("")
	h := &Functions{k: &sysif.Kernel{Sys: m.Tree(), Proc: m.Tree()}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	err := h.WaitDriver(ctx, vfAddr, true)
	if !errors.Is(err, model.ErrGuest) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want model.ErrGuest and DeadlineExceeded", err)
	}
	if !strings.Contains(err.Error(), string(vfAddr)) {
		t.Errorf("error %q does not name the VF", err)
	}
}

// TestSettled tests the rule for the first vector alone, with a simulated clock.
func TestSettled(t *testing.T) {
	w := driverWait{settle: time.Second}
	at := time.Unix(0, 0)
	for _, s := range []struct {
		after time.Duration
		look  model.Tri
		want  model.Tri
	}{
		{0, model.Unknown, model.Unknown},
		{999 * time.Millisecond, model.Unknown, model.Unknown},
		{time.Millisecond, model.Unknown, model.Yes},
		{time.Millisecond, model.No, model.No},
		{time.Hour, model.Unknown, model.Unknown},
		{time.Second, model.Unknown, model.Yes},
	} {
		at = at.Add(s.after)
		if got := w.settled(s.look, at); got != s.want {
			t.Errorf("at %s: %s, want %s", at.Sub(time.Unix(0, 0)), got, s.want)
		}
	}
}

func TestWaitEnabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := kerneltest.ParseTree("bus/pci/devices/0000:01:10.0/enable = 0\n")
		h := &Functions{k: &sysif.Kernel{Sys: m.Tree()}}
		looks := 0
		m.After = func(string, string) {
			if looks++; looks == 100 { // QEMU opens the VF
				m.Content["/bus/pci/devices/0000:01:10.0/enable"] = "1"
			}
		}
		if err := h.WaitEnabled(t.Context(), vfAddr); err != nil || looks != 101 {
			t.Errorf("got %v after %d looks, want 101", err, looks)
		}
		m.Content["/bus/pci/devices/0000:01:10.0/enable"] = "0"
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.WaitEnabled(ctx, vfAddr); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v at the end of the time", err)
		}
		m.Remove("/bus/pci/devices/0000:01:10.0")
		if err := h.WaitEnabled(t.Context(), vfAddr); err == nil {
			t.Error("waits for a VF that is not there")
		}
	})
}
