package vf

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

const vfAddr model.PCIAddress = "0000:01:10.0"

// pciKernel simulates driver binding in a kernel with one VF bound to igbvf.
func pciKernel() *kerneltest.Files {
	m := kerneltest.ParseTree(`
bus/pci/drivers_probe = write-only
bus/pci/drivers/vfio-pci/unbind = write-only
bus/pci/drivers/igbvf/unbind = write-only
bus/pci/devices/0000:01:10.0/driver_override = (null)
bus/pci/devices/0000:01:10.0/driver -> ../../../../bus/pci/drivers/igbvf
bus/pci/devices/0000:01:10.0/iommu_group -> ../../../../kernel/iommu_groups/14
`)
	m.OnWrite = func(path, data string) error { return react(m, path, data) }
	return m
}

const (
	driverLink   = "/bus/pci/devices/0000:01:10.0/driver"
	overrideFile = "/bus/pci/devices/0000:01:10.0/driver_override"
)

// react simulates the kernel's reaction to writes to the binding files.
func react(m *kerneltest.Files, path, data string) error {
	switch {
	case strings.HasSuffix(path, "/unbind"):
		if _, bound := m.Content[driverLink]; !bound {
			return unix.ENODEV
		}
		delete(m.Content, driverLink)
	case strings.HasSuffix(path, "drivers_probe"):
		driver := strings.TrimSpace(m.Content[overrideFile])
		if driver == "" || driver == "(null)" {
			driver = "igbvf"
		}
		if _, bound := m.Content[driverLink]; !bound {
			m.Content[driverLink] = "-> ../../../../bus/pci/drivers/" + driver
		}
	default:
		m.Content[path] = strings.TrimSpace(data)
	}
	return nil
}

func TestBindVFIO(t *testing.T) {
	m := pciKernel()
	kerneltest.Must(t, bindVFIO(m.Tree(), vfAddr))
	if got := m.Tree().Target(driverLink); got != vfioPCI {
		t.Errorf("bound to %q", got)
	}
	if got := m.Content[overrideFile]; got != "" {
		t.Errorf("driver_override is left at %q", got)
	}
	m.Writes = nil
	if err := bindVFIO(m.Tree(), vfAddr); err != nil || len(m.Writes) > 0 {
		t.Errorf("binding again wrote %q, error %v", m.Writes, err)
	}
	kerneltest.Must(t, restoreDriver(m.Tree(), vfAddr))
	if got := m.Tree().Target(driverLink); got != "igbvf" {
		t.Errorf("restored to %q", got)
	}
}

func TestBindVFIOOfFreeDevice(t *testing.T) {
	m := pciKernel()
	delete(m.Content, driverLink)
	kerneltest.Must(t, bindVFIO(m.Tree(), vfAddr))
	if got := m.Tree().Target(driverLink); got != vfioPCI {
		t.Errorf("bound to %q", got)
	}
}

func TestBindVFIOTouchesNothingWhenItCannotWork(t *testing.T) {
	for name, c := range map[string]struct {
		without string
		kind    error
		text    string
	}{
		"no module":  {"/bus/pci/drivers/vfio-pci", model.ErrPermanent, "modprobe vfio-pci"},
		"no IOMMU":   {"/bus/pci/devices/0000:01:10.0/iommu_group", model.ErrPermanent, "intel_iommu=on"},
		"no device":  {"/bus/pci/devices/0000:01:10.0", model.ErrGone, "bind to vfio-pci 0000:01:10.0"},
		"no PCI bus": {"/bus/pci", model.ErrGone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := pciKernel()
			m.Remove(c.without)
			h := &Functions{k: &sysif.Kernel{Sys: m.Tree(), Busy: sysif.NewLocks()}}
			err := h.BindVFIO(kerneltest.Soon(t), vfAddr)
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %v, want %v with %q", err, c.kind, c.text)
			}
			if len(m.Writes) > 0 {
				t.Errorf("wrote %q", m.Writes)
			}
		})
	}
}

// TestBindVFIOThatFails checks that a failure leaves the VF with its driver and without an override.
func TestBindVFIOThatFails(t *testing.T) {
	for name, breakIt := range map[string]func(m *kerneltest.Files) error{
		"vfio-pci does not take it": func(m *kerneltest.Files) error {
			if strings.TrimSpace(m.Content[overrideFile]) == vfioPCI {
				return nil // probe finds no driver
			}
			return react(m, "/bus/pci/drivers_probe", "")
		},
		"the probe fails": func(m *kerneltest.Files) error {
			if strings.TrimSpace(m.Content[overrideFile]) == vfioPCI {
				return unix.EINVAL
			}
			return react(m, "/bus/pci/drivers_probe", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := pciKernel()
			m.OnWrite = func(path, data string) error {
				if strings.HasSuffix(path, "drivers_probe") {
					return breakIt(m)
				}
				return react(m, path, data)
			}
			if err := bindVFIO(m.Tree(), vfAddr); err == nil {
				t.Error("no error")
			}
			if got := m.Tree().Target(driverLink); got != "igbvf" {
				t.Errorf("left with driver %q, want igbvf", got)
			}
			if got := m.Content[overrideFile]; got != "" {
				t.Errorf("driver_override is left at %q", got)
			}
		})
	}
}

func TestUnbindThatAnotherDidFirst(t *testing.T) {
	m := pciKernel()
	for _, err := range []error{unix.ENODEV, &fs.PathError{Err: unix.ENOENT}} {
		m.OnWrite = func(_, _ string) error { return err }
		if err := sysif.Unbind(m.Tree(), "pci", "igbvf", string(vfAddr)); err != nil {
			t.Error(err)
		}
	}
	m.OnWrite = func(_, _ string) error { return unix.EIO }
	if err := sysif.Unbind(m.Tree(), "pci", "igbvf", string(vfAddr)); !errors.Is(err, unix.EIO) {
		t.Errorf("error %v, want EIO", err)
	}
}
