package kernel

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

const vfAddr model.PCIAddress = "0000:01:10.0"

// pciKernel is a kernel with one VF bound to igbvf, as far as binding goes.
func pciKernel() *memFiles {
	m := parseTree(`
bus/pci/drivers_probe = write-only
bus/pci/drivers/vfio-pci/unbind = write-only
bus/pci/drivers/igbvf/unbind = write-only
bus/pci/devices/0000:01:10.0/driver_override = (null)
bus/pci/devices/0000:01:10.0/driver -> ../../../../bus/pci/drivers/igbvf
bus/pci/devices/0000:01:10.0/iommu_group -> ../../../../kernel/iommu_groups/14
`)
	m.onWrite = m.react
	return m
}

const (
	driverLink   = "/bus/pci/devices/0000:01:10.0/driver"
	overrideFile = "/bus/pci/devices/0000:01:10.0/driver_override"
)

// react does what the kernel does with writes to the binding files.
func (m *memFiles) react(path, data string) error {
	switch {
	case strings.HasSuffix(path, "/unbind"):
		if _, bound := m.files[driverLink]; !bound {
			return unix.ENODEV
		}
		delete(m.files, driverLink)
	case strings.HasSuffix(path, "drivers_probe"):
		driver := strings.TrimSpace(m.files[overrideFile])
		if driver == "" || driver == "(null)" {
			driver = "igbvf"
		}
		if _, bound := m.files[driverLink]; !bound {
			m.files[driverLink] = "-> ../../../../bus/pci/drivers/" + driver
		}
	default:
		m.files[path] = strings.TrimSpace(data)
	}
	return nil
}

func TestBindVFIO(t *testing.T) {
	m := pciKernel()
	must(t, bindVFIO(m.tree(), vfAddr))
	if got := m.tree().target(driverLink); got != vfioPCI {
		t.Errorf("bound to %q", got)
	}
	if got := m.files[overrideFile]; got != "" {
		t.Errorf("driver_override is left at %q", got)
	}
	m.writes = nil
	if err := bindVFIO(m.tree(), vfAddr); err != nil || len(m.writes) > 0 {
		t.Errorf("binding again wrote %q, error %v", m.writes, err)
	}
	must(t, restoreDriver(m.tree(), vfAddr))
	if got := m.tree().target(driverLink); got != "igbvf" {
		t.Errorf("restored to %q", got)
	}
}

func TestBindVFIOOfFreeDevice(t *testing.T) {
	m := pciKernel()
	delete(m.files, driverLink)
	must(t, bindVFIO(m.tree(), vfAddr))
	if got := m.tree().target(driverLink); got != vfioPCI {
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
			m.remove(c.without)
			h := &Host{sys: m.tree(), busy: newLocks()}
			err := h.BindVFIO(soon(t), vfAddr)
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %v, want %v with %q", err, c.kind, c.text)
			}
			if len(m.writes) > 0 {
				t.Errorf("wrote %q", m.writes)
			}
		})
	}
}

// TestBindVFIOThatFails must leave the VF with its driver and without an override.
func TestBindVFIOThatFails(t *testing.T) {
	for name, breakIt := range map[string]func(m *memFiles) error{
		"vfio-pci does not take it": func(m *memFiles) error {
			if strings.TrimSpace(m.files[overrideFile]) == vfioPCI {
				return nil // probe finds no driver
			}
			return m.react("/bus/pci/drivers_probe", "")
		},
		"the probe fails": func(m *memFiles) error {
			if strings.TrimSpace(m.files[overrideFile]) == vfioPCI {
				return unix.EINVAL
			}
			return m.react("/bus/pci/drivers_probe", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := pciKernel()
			m.onWrite = func(path, data string) error {
				if strings.HasSuffix(path, "drivers_probe") {
					return breakIt(m)
				}
				return m.react(path, data)
			}
			if err := bindVFIO(m.tree(), vfAddr); err == nil {
				t.Error("no error")
			}
			if got := m.tree().target(driverLink); got != "igbvf" {
				t.Errorf("left with driver %q, want igbvf", got)
			}
			if got := m.files[overrideFile]; got != "" {
				t.Errorf("driver_override is left at %q", got)
			}
		})
	}
}

func TestUnbindThatAnotherDidFirst(t *testing.T) {
	m := pciKernel()
	for _, err := range []error{unix.ENODEV, &fs.PathError{Err: unix.ENOENT}} {
		m.onWrite = func(_, _ string) error { return err }
		if err := unbind(m.tree(), vfAddr, "igbvf"); err != nil {
			t.Error(err)
		}
	}
	m.onWrite = func(_, _ string) error { return unix.EIO }
	if err := unbind(m.tree(), vfAddr, "igbvf"); !errors.Is(err, unix.EIO) {
		t.Errorf("error %v, want EIO", err)
	}
}
