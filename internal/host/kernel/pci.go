package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

const vfioPCI = "vfio-pci"

// BindVFIO binds a VF to vfio-pci, taking it from another driver if needed. It does
// nothing if it is bound already, to vfio-pci or a variant of it. Callers make sure that
// the host does not use the VF. When it fails after the VF was taken from its driver, that
// driver gets it back.
func (h *Host) BindVFIO(ctx context.Context, addr model.PCIAddress) error {
	err := h.busy.exclusive(ctx, string(addr), func() error { return bindVFIO(h.sys, addr) })
	return fail("bind to vfio-pci", string(addr), err)
}

// RestoreDriver gives a VF back to the driver the kernel chooses by itself. The kernel
// waits until nobody has the VF open, for as long as that takes.
func (h *Host) RestoreDriver(ctx context.Context, addr model.PCIAddress) error {
	err := h.busy.exclusive(ctx, string(addr), func() error { return restoreDriver(h.sys, addr) })
	return fail("restore driver of", string(addr), err)
}

func bindVFIO(sys tree, addr model.PCIAddress) error {
	dev := pciDir(addr)
	if !sys.exists(dev) {
		return unix.ENODEV
	}
	driver := sys.target(dev + "/driver")
	if driver != "pci-stub" && passesThrough(driver) {
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

// checkVFIO says what is missing before anything is touched.
func checkVFIO(sys tree, dev string) error {
	if !sys.exists("bus/pci/drivers/" + vfioPCI) {
		return permanent("the vfio-pci driver is not there: modprobe vfio-pci")
	}
	if sys.target(dev+"/iommu_group") == "" {
		return permanent("the device is in no IOMMU group: enable the IOMMU in the firmware " +
			"and on the kernel's command line (intel_iommu=on, or amd_iommu=on)")
	}
	return nil
}

// rebind moves a device from a driver ("": none) to another. driver_override is there
// only during the move: left behind, it would bind the next device at this address too.
func rebind(sys tree, addr model.PCIAddress, driver, to string) (err error) {
	override := pciDir(addr) + "/driver_override"
	if err := sys.write(override, to); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.write(override, "\n")) }()
	if err := unbind(sys, addr, driver); err != nil {
		return err
	}
	if err := probe(sys, addr); err != nil {
		return err
	}
	if now := sys.target(pciDir(addr) + "/driver"); now != to {
		return fmt.Errorf("the kernel left it with driver %q: see dmesg", now)
	}
	return nil
}

// unbind takes a device from a driver. That another was faster is no error.
func unbind(sys tree, addr model.PCIAddress, driver string) error {
	if driver == "" {
		return nil
	}
	err := sys.write("bus/pci/drivers/"+driver+"/unbind", string(addr))
	if errors.Is(err, unix.ENODEV) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// probe lets the kernel bind a device that has no driver.
func probe(sys tree, addr model.PCIAddress) error {
	return sys.write("bus/pci/drivers_probe", string(addr))
}

func restoreDriver(sys tree, addr model.PCIAddress) error {
	dev := pciDir(addr)
	if !sys.exists(dev) {
		return unix.ENODEV
	}
	if err := sys.write(dev+"/driver_override", "\n"); err != nil {
		return err
	}
	driver := sys.target(dev + "/driver")
	if driver != "" && !passesThrough(driver) {
		return nil
	}
	if err := unbind(sys, addr, driver); err != nil {
		return err
	}
	return probe(sys, addr)
}
