package vf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// TryVFRates asks a PF's driver for exactly these rates of a VF, whatever is known of it, and returns what it shows then.
func (h *Functions) TryVFRates(ctx context.Context, pf string, idx int, want VFRates) (VFRates, error) {
	e, err := h.editVF(ctx, pf, idx)
	if err != nil {
		return VFRates{}, err
	}
	err = e.change(ctx, changeRates(want.Min, want.Max))
	now, rerr := e.state(ctx)
	return VFRates{Max: now.MaxTxRate, Min: now.MinTxRate}, errors.Join(err, rerr)
}

// Unbind takes a VF from its driver, so that it has none; its interface goes, whatever namespace it is in. Callers
// make sure that nobody uses it: the kernel waits until nobody has it open.
func (h *Functions) Unbind(ctx context.Context, addr model.PCIAddress) error {
	err := h.k.Busy.Exclusive(ctx, string(addr), func() error {
		if !h.k.Sys.Exists(sysif.PCIDir(addr)) {
			return unix.ENODEV
		}
		return unbind(h.k.Sys, addr, h.k.Sys.Target(sysif.PCIDir(addr)+"/driver"))
	})
	return sysif.Fail("unbind", string(addr), err)
}

// vfDrivers are the host's drivers for VFs, by that of their PF.
var vfDrivers = map[string]string{
	"igb": "igbvf", "ixgbe": "ixgbevf", "i40e": "iavf", "ice": "iavf", "mlx5_core": "mlx5_core", "mlx4_core": "mlx4_core",
	"bnxt_en": "bnxt_en", "qede": "qede", "sfc": "sfc",
}

// BindHost gives a VF to a driver of the host that makes an interface of it: the named one, or for "" the one that the kernel
// chooses by itself. Where it may choose none for VFs (sriov_drivers_autoprobe is 0), the usual one of the PF's driver.
// Callers make sure that nobody uses the VF. It does nothing if the VF has a driver of the host already.
func (h *Functions) BindHost(ctx context.Context, addr model.PCIAddress, driver string) error {
	err := h.k.Busy.Exclusive(ctx, string(addr), func() error { return bindHost(h.k.Sys, addr, driver) })
	return sysif.Fail("give to the host's driver", string(addr), err)
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
		return sysif.Permanent("the driver " + driver + " is not there: modprobe " + driver)
	}
	return rebind(sys, addr, now, driver)
}

// DriverOverride is the driver that a device is reserved for, "" for none.
func (h *Functions) DriverOverride(addr model.PCIAddress) (string, error) {
	text, err := h.k.Sys.Text(sysif.PCIDir(addr) + "/driver_override")
	if text == "(null)" {
		text = ""
	}
	return text, sysif.Fail("read driver_override of", string(addr), err)
}

// SetDriverOverride reserves a device for a driver, "" for none. It does not bind.
func (h *Functions) SetDriverOverride(ctx context.Context, addr model.PCIAddress, driver string) error {
	err := h.k.Busy.Exclusive(ctx, string(addr), func() error { return h.k.Sys.Write(sysif.PCIDir(addr)+"/driver_override", driver+"\n") })
	return sysif.Fail("set driver_override of", string(addr), err)
}

// Hardware is what a PF is, as far as what is known of it depends on that.
type Hardware struct {
	Address  model.PCIAddress
	Device   string // vendor:device (subsystem vendor:device), in hexadecimal digits
	Driver   string
	Version  string // of the driver: the kernel's where it has none of its own
	Firmware string
	Kernel   string
	Emulated bool // QEMU makes it
}

// What QEMU gives to devices as their subsystem's vendor, unless told otherwise.
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
		hw = Hardware{} // it may still be written
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
