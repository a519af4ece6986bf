// Package survey reads what a host offers to Sluice before anything is configured: kernel, IOMMU, vfio, NICs without a driver.
package survey

import (
	"path"
	"slices"
	"strings"

	"sluice/internal/control/doctor"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Look reads the kernel's trees: sysfs, procfs, and the modules' directory, usually /lib/modules. What cannot be read is missing.
func Look(sys, proc, modules sysif.Tree) doctor.Platform {
	release, _ := proc.Text("sys/kernel/osrelease")
	return doctor.Platform{
		Kernel: release, IOMMUGroups: len(sys.List("kernel/iommu_groups")), VFIO: vfio(sys, modules, release), Driverless: driverless(sys),
	}
}

// vfio reports whether vfio-pci is loaded, built in, or a module that libvirt will load.
func vfio(sys, modules sysif.Tree, release string) bool {
	if sys.Exists("bus/pci/drivers/vfio-pci") {
		return true
	}
	for _, list := range []string{"modules.dep", "modules.builtin"} {
		if text, err := modules.Text(path.Join(release, list)); err == nil && strings.Contains(text, "/vfio-pci.ko") {
			return true
		}
	}
	return false
}

// driverless lists network functions with SR-IOV that have no driver.
func driverless(sys sysif.Tree) (out []model.PCIAddress) {
	const network = 0x02 // base class of a PCI network controller, in the upper byte of three
	for _, name := range sys.List("bus/pci/devices") {
		at := model.PCIAddress(name)
		dir := sysif.PCIDir(at)
		if sys.Number(dir+"/class", 0)>>16 == network && sys.Number(dir+"/sriov_totalvfs", 0) > 0 && sys.Target(dir+"/driver") == "" {
			out = append(out, at)
		}
	}
	slices.Sort(out)
	return out
}
