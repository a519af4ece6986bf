package vf

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// TryVFRates requests exactly these rates of a VF from the PF's driver, ignoring its known capabilities, and returns the rates it
// then reports.
func (h *Functions) TryVFRates(ctx context.Context, pf string, idx int, want Rates) (Rates, error) {
	e, err := h.editVF(ctx, pf, idx)
	if err != nil {
		return Rates{}, err
	}
	return e.rates(ctx, e.change(ctx, changeRates(want.Min, want.Max)))
}

// Unbind unbinds a VF from its driver. The VF's interface disappears, whatever namespace it is in. The caller must make sure that
// the VF is not in use, because the kernel waits until nobody has it open.
func (h *Functions) Unbind(ctx context.Context, addr model.PCIAddress) error {
	err := h.k.Busy.Exclusive(ctx, string(addr), func() error {
		if !h.k.Sys.Exists(sysif.PCIDir(addr)) {
			return unix.ENODEV
		}
		return sysif.Unbind(h.k.Sys, "pci", h.k.Sys.Target(sysif.PCIDir(addr)+"/driver"), string(addr))
	})
	return sysif.Fail("unbind", string(addr), err)
}

// vfDrivers are the usual host drivers of VFs, by PF driver.
var vfDrivers = map[string]string{
	"igb": "igbvf", "ixgbe": "ixgbevf", "i40e": "iavf", "ice": "iavf", "mlx5_core": "mlx5_core", "mlx4_core": "mlx4_core",
	"bnxt_en": "bnxt_en", "qede": "qede", "sfc": "sfc",
}

// BindHost binds a VF to a host driver that creates a network interface: the named one, or for "" the kernel's default. If the
// kernel must not bind VFs by itself (sriov_drivers_autoprobe is 0), "" means the usual VF driver for the PF's driver. The caller
// must make sure that nobody uses the VF. BindHost does nothing if the VF already has a host driver.
func (h *Functions) BindHost(ctx context.Context, addr model.PCIAddress, driver string) error {
	err := h.k.Busy.Exclusive(ctx, string(addr), func() error { return bindHost(h.k.Sys, addr, driver) })
	return sysif.Fail("bind to the host's driver", string(addr), err)
}

func bindHost(sys sysif.Tree, addr model.PCIAddress, driver string) error {
	dev := sysif.PCIDir(addr)
	if driver == "" && sys.Number(dev+"/physfn/sriov_drivers_autoprobe", 1) == 0 {
		driver = vfDrivers[sys.Target(dev+"/physfn/driver")]
	}
	now := sys.Target(dev + "/driver")
	switch {
	case !sys.Exists(dev):
		return unix.ENODEV
	case driver == "":
		return restoreDriver(sys, addr)
	case now == driver:
		return nil
	case !sys.Exists("bus/pci/drivers/" + driver):
		return sysif.Permanent("driver " + driver + " is not loaded: modprobe " + driver)
	}
	return rebind(sys, addr, now, driver)
}

// DriverOverride returns the driver_override of a device, "" if there is none.
func (h *Functions) DriverOverride(addr model.PCIAddress) (string, error) {
	text, err := h.k.Sys.Text(sysif.PCIDir(addr) + "/driver_override")
	if text == "(null)" {
		text = ""
	}
	return text, sysif.Fail("read driver_override of", string(addr), err)
}

// SetDriverOverride sets the driver_override of a device, "" for none. It does not rebind the device.
func (h *Functions) SetDriverOverride(ctx context.Context, addr model.PCIAddress, driver string) error {
	err := h.k.Busy.Exclusive(ctx, string(addr), func() error { return h.k.Sys.Write(sysif.PCIDir(addr)+"/driver_override", driver+"\n") })
	return sysif.Fail("set driver_override of", string(addr), err)
}

// Hardware identifies a PF by everything on which its measured properties depend.
type Hardware struct {
	Address  model.PCIAddress
	Device   string // vendor:device (subsystem vendor:device), in hexadecimal digits
	Driver   string
	Version  string // of the driver; the kernel's if the driver has none of its own
	Firmware string
	Kernel   string
	Emulated bool // by QEMU
}

// QEMU's default subsystem vendors.
const (
	vendorQumranet = "0x1af4"
	vendorRedHat   = "0x1b36"
)

// Hardware describes a PF.
func (h *Functions) Hardware(ctx context.Context, pf string) (hw Hardware, err error) {
	err = h.k.Busy.Exclusive(ctx, "ethtool "+pf, func() error {
		found, err := readHardware(h.k.Sys, h.k.Ioctl, pf)
		if err == nil {
			hw = found
		}
		return err
	})
	if ctx.Err() != nil {
		hw = Hardware{} // may still be written to
	}
	return hw, sysif.Fail("describe", "PF "+pf, err)
}

func readHardware(sys sysif.Tree, ioctl int, pf string) (hw Hardware, err error) {
	info, err := unix.IoctlGetEthtoolDrvinfo(ioctl, pf)
	if err != nil {
		return hw, err
	}
	hw.Address = sysif.PCIOf(sys, "class/net/"+pf+"/device")
	dir := sysif.PCIDir(hw.Address)
	id := func(name string) string { text, _ := sys.Text(dir + "/" + name); return text }
	short := func(name string) string { return strings.TrimPrefix(id(name), "0x") }
	hw.Device = fmt.Sprintf("%s:%s (%s:%s)", short("vendor"), short("device"), short("subsystem_vendor"), short("subsystem_device"))
	sub := id("subsystem_vendor")
	hw.Emulated = sub == vendorQumranet || sub == vendorRedHat
	hw.Driver = cmp.Or(sys.Target(dir+"/driver"), unix.ByteSliceToString(info.Driver[:]))
	hw.Version, hw.Firmware = unix.ByteSliceToString(info.Version[:]), unix.ByteSliceToString(info.Fw_version[:])
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return hw, err
	}
	hw.Kernel = unix.ByteSliceToString(u.Release[:])
	return hw, nil
}
