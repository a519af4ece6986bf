package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/model"
)

// MoveLink gives an interface another name and network namespace, of which ns is a descriptor. It is down then.
func (h *Host) MoveLink(ctx context.Context, name, as string, ns int) error {
	l, err := h.Link(ctx, name)
	if err == nil {
		req := rtnl.NewRequest(unix.RTM_SETLINK, 0, rtnl.Link(unix.AF_UNSPEC, l.Index))
		err = h.write.Do(ctx, req.String(unix.IFLA_IFNAME, as).U32(unix.IFLA_NET_NS_FD, uint32(ns))) //nolint:gosec // a descriptor
	}
	return fail("move to another network namespace", name, err)
}

// TryVFRates asks a PF's driver for exactly these rates of a VF, whatever is known of it, and returns what it shows then.
func (h *Host) TryVFRates(ctx context.Context, pf string, idx int, want VFRates) (VFRates, error) {
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
func (h *Host) Unbind(ctx context.Context, addr model.PCIAddress) error {
	err := h.busy.exclusive(ctx, string(addr), func() error {
		if !h.sys.exists(pciDir(addr)) {
			return unix.ENODEV
		}
		return unbind(h.sys, addr, h.sys.target(pciDir(addr)+"/driver"))
	})
	return fail("unbind", string(addr), err)
}

// vfDrivers are the host's drivers for VFs, by that of their PF.
var vfDrivers = map[string]string{
	"igb": "igbvf", "ixgbe": "ixgbevf", "i40e": "iavf", "ice": "iavf", "mlx5_core": "mlx5_core", "mlx4_core": "mlx4_core",
	"bnxt_en": "bnxt_en", "qede": "qede", "sfc": "sfc",
}

// BindHost gives a VF to a driver of the host that makes an interface of it: the named one, or for "" the one that the kernel
// chooses by itself. Where it may choose none for VFs (sriov_drivers_autoprobe is 0), the usual one of the PF's driver.
// Callers make sure that nobody uses the VF. It does nothing if the VF has a driver of the host already.
func (h *Host) BindHost(ctx context.Context, addr model.PCIAddress, driver string) error {
	err := h.busy.exclusive(ctx, string(addr), func() error { return bindHost(h.sys, addr, driver) })
	return fail("give to the host's driver", string(addr), err)
}

func bindHost(sys tree, addr model.PCIAddress, driver string) error {
	dev := pciDir(addr)
	if driver == "" && sys.number(dev+"/physfn/sriov_drivers_autoprobe", 1) == 0 {
		driver = vfDrivers[sys.target(dev+"/physfn/driver")]
	}
	now := sys.target(dev + "/driver")
	switch {
	case !sys.exists(dev):
		return unix.ENODEV
	case driver == "":
		return restoreDriver(sys, addr)
	case now == driver:
		return nil
	case !sys.exists("bus/pci/drivers/" + driver):
		return permanent("the driver " + driver + " is not there: modprobe " + driver)
	}
	return rebind(sys, addr, now, driver)
}

// DriverOverride is the driver that a device is reserved for, "" for none.
func (h *Host) DriverOverride(addr model.PCIAddress) (string, error) {
	text, err := h.sys.text(pciDir(addr) + "/driver_override")
	if text == "(null)" {
		text = ""
	}
	return text, fail("read driver_override of", string(addr), err)
}

// SetDriverOverride reserves a device for a driver, "" for none. It does not bind.
func (h *Host) SetDriverOverride(ctx context.Context, addr model.PCIAddress, driver string) error {
	err := h.busy.exclusive(ctx, string(addr), func() error { return h.sys.write(pciDir(addr)+"/driver_override", driver+"\n") })
	return fail("set driver_override of", string(addr), err)
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
func (h *Host) Hardware(ctx context.Context, pf string) (hw Hardware, err error) {
	err = h.busy.exclusive(ctx, "ethtool "+pf, func() error {
		found, err := readHardware(h.sys, h.ioctl, pf)
		if err == nil {
			hw = found
		}
		return err
	})
	if ctx.Err() != nil {
		hw = Hardware{} // it may still be written
	}
	return hw, fail("describe", "PF "+pf, err)
}

func readHardware(sys tree, ioctl int, pf string) (hw Hardware, err error) {
	info, err := unix.IoctlGetEthtoolDrvinfo(ioctl, pf)
	if err != nil {
		return hw, err
	}
	hw.Address = pciOf(sys, "class/net/"+pf+"/device")
	dir := pciDir(hw.Address)
	id := func(name string) string { text, _ := sys.text(dir + "/" + name); return text }
	short := func(name string) string { return strings.TrimPrefix(id(name), "0x") }
	hw.Device = fmt.Sprintf("%s:%s (%s:%s)", short("vendor"), short("device"), short("subsystem_vendor"), short("subsystem_device"))
	sub := id("subsystem_vendor")
	hw.Emulated = sub == vendorQumranet || sub == vendorRedHat
	hw.Driver = cmp.Or(sys.target(dir+"/driver"), unix.ByteSliceToString(info.Driver[:]))
	hw.Version, hw.Firmware = unix.ByteSliceToString(info.Version[:]), unix.ByteSliceToString(info.Fw_version[:])
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return hw, err
	}
	hw.Kernel = unix.ByteSliceToString(u.Release[:])
	return hw, nil
}
