package vf

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

const vfioPCI = "vfio-pci"

// BindVFIO binds a VF to vfio-pci, unbinding it from another driver if needed. It does nothing if the VF is already bound to
// vfio-pci or a variant of it. The caller must make sure that the host does not use the VF. If BindVFIO fails after unbinding, it
// restores the driver.
func (h *Functions) BindVFIO(ctx context.Context, addr model.PCIAddress) error {
	err := h.k.Busy.Exclusive(ctx, string(addr), func() error { return bindVFIO(h.k.Sys, addr) })
	return sysif.Fail("bind to vfio-pci", string(addr), err)
}

// RestoreDriver rebinds a VF to the kernel's default driver. The kernel waits, without limit, until nobody has the VF open.
func (h *Functions) RestoreDriver(ctx context.Context, addr model.PCIAddress) error {
	err := h.k.Busy.Exclusive(ctx, string(addr), func() error { return restoreDriver(h.k.Sys, addr) })
	return sysif.Fail("restore driver of", string(addr), err)
}

func bindVFIO(sys sysif.Tree, addr model.PCIAddress) error {
	dev := sysif.PCIDir(addr)
	if !sys.Exists(dev) {
		return unix.ENODEV
	}
	driver := sys.Target(dev + "/driver")
	if driver != "pci-stub" && PassesThrough(driver) {
		return nil
	}
	if err := checkVFIO(sys, dev); err != nil {
		return err
	}
	if err := rebind(sys, addr, driver, vfioPCI); err != nil {
		return errors.Join(err, probe(sys, addr))
	}
	return nil
}

// checkVFIO checks the prerequisites before anything is changed.
func checkVFIO(sys sysif.Tree, dev string) error {
	if !sys.Exists("bus/pci/drivers/" + vfioPCI) {
		return sysif.Permanent("the vfio-pci driver is not loaded: modprobe vfio-pci")
	}
	if sys.Target(dev+"/iommu_group") == "" {
		return sysif.Permanent("the device is not in an IOMMU group: enable the IOMMU in the firmware " +
			"and on the kernel's command line (intel_iommu=on, or amd_iommu=on)")
	}
	return nil
}

// rebind moves a device from a driver ("": none) to another. It sets driver_override only during the move, because otherwise it
// would also bind the next device at this address.
func rebind(sys sysif.Tree, addr model.PCIAddress, driver, to string) (err error) {
	override := sysif.PCIDir(addr) + "/driver_override"
	if err := sys.Write(override, to); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.Write(override, "\n")) }()
	if err := sysif.Unbind(sys, "pci", driver, string(addr)); err != nil {
		return err
	}
	if err := probe(sys, addr); err != nil {
		return err
	}
	if now := sys.Target(sysif.PCIDir(addr) + "/driver"); now != to {
		return fmt.Errorf("the kernel left it with driver %q: see dmesg", now)
	}
	return nil
}

// probe makes the kernel bind a device that has no driver.
func probe(sys sysif.Tree, addr model.PCIAddress) error {
	return sys.Write("bus/pci/drivers_probe", string(addr))
}

func restoreDriver(sys sysif.Tree, addr model.PCIAddress) error {
	dev := sysif.PCIDir(addr)
	if !sys.Exists(dev) {
		return unix.ENODEV
	}
	if err := sys.Write(dev+"/driver_override", "\n"); err != nil {
		return err
	}
	driver := sys.Target(dev + "/driver")
	if driver != "" && !PassesThrough(driver) {
		return nil
	}
	if err := sysif.Unbind(sys, "pci", driver, string(addr)); err != nil {
		return err
	}
	return probe(sys, addr)
}
