package vf

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// rereads bounds how often a PF is read again because its number of VFs changed meanwhile.
const rereads = 3

// discover finds PFs and their VFs in sysfs, sorted by name. Any file there can vanish or contain nonsense at any time: what
// cannot be read is omitted or zero.
func discover(sys sysif.Tree) []PFInfo {
	var pfs []PFInfo
	for addr, netdevs := range sriovNetdevs(sys) {
		if pf, ok := readPF(sys, addr, mainNetdev(sys, netdevs)); ok {
			pfs = append(pfs, pf)
		}
	}
	slices.SortFunc(pfs, func(a, b PFInfo) int { return strings.Compare(a.Name, b.Name) })
	return pfs
}

// sriovNetdevs returns the netdevs of SR-IOV capable PCI functions, by PCI address. One list of the virtual netdevs spares a
// lookup for each tap of a host.
func sriovNetdevs(sys sysif.Tree) map[model.PCIAddress][]string {
	found, virtual := map[model.PCIAddress][]string{}, map[string]bool{}
	for _, name := range sys.List("devices/virtual/net") {
		virtual[name] = true
	}
	for _, name := range sys.List("class/net") {
		if virtual[name] {
			continue
		}
		addr := sysif.PCIOf(sys, path.Join("class/net", name, "device"))
		if addr != "" && sys.Number(sysif.PCIDir(addr)+"/sriov_totalvfs", 0) > 0 {
			found[addr] = append(found[addr], name)
		}
	}
	return found
}

// mainNetdev picks the PF's own netdev among those of its PCI function: representors of VFs and subfunctions have port names such
// as pf0vf3, and further ports of one function have higher numbers.
func mainNetdev(sys sysif.Tree, names []string) string {
	slices.Sort(names)
	names = slices.DeleteFunc(names, func(name string) bool {
		port, _ := sys.Text("class/net/" + name + "/phys_port_name")
		return strings.Contains(port, "pf")
	})
	if len(names) == 0 {
		return ""
	}
	port := func(name string) int { return sys.Number("class/net/"+name+"/dev_port", 0) }
	return slices.MinFunc(names, func(a, b string) int { return port(a) - port(b) })
}

// readPF reads one PF. ok is false if it vanished meanwhile.
func readPF(sys sysif.Tree, addr model.PCIAddress, name string) (pf PFInfo, ok bool) {
	if name == "" {
		return pf, false
	}
	net, dev := "class/net/"+name, sysif.PCIDir(addr)
	pf.Name, pf.Address = name, addr
	pf.Driver = sys.Target(dev + "/driver")
	pf.NUMANode = max(sys.Number(dev+"/numa_node", -1), -1)
	pf.TotalVFs = max(sys.Number(dev+"/sriov_totalvfs", 0), 0)
	readVFs(sys, &pf)
	device, _ := sys.Text(dev + "/device")
	pf.Caps, pf.SelfSlots = capsOf(pf.Driver, device, pf.NumVFs)
	if mac, err := sys.Text(net + "/address"); err == nil {
		pf.MAC, _ = model.ParseMAC(mac)
	}
	pf.LinkUp = sys.Number(net+"/carrier", 0) == 1
	pf.Speed = uint64(max(sys.Number(net+"/speed", 0), 0)) * netdev.Mbit
	// Last: shows that the netdev still existed after everything else was read.
	pf.Index = sys.Number(net+"/ifindex", 0)
	return pf, pf.Index > 0 && pf.TotalVFs > 0
}

// readVFs fills in NumVFs and the VFs, and repeats if their number changes meanwhile.
func readVFs(sys sysif.Tree, pf *PFInfo) {
	dev := sysif.PCIDir(pf.Address)
	for range rereads {
		pf.NumVFs = max(sys.Number(dev+"/sriov_numvfs", 0), 0)
		pf.VFs, pf.Uses = listVFs(sys, pf.Name, dev)
		if sys.Number(dev+"/sriov_numvfs", 0) == pf.NumVFs {
			return
		}
	}
}

func listVFs(sys sysif.Tree, pf, dev string) (vfs []model.VF, uses []Use) {
	for _, i := range vfIndexes(sys.List(dev)) {
		addr := model.PCIAddress(sys.Target(dev + "/virtfn" + strconv.Itoa(i)))
		driver, use, ok := readVF(sys, addr)
		if !ok {
			continue
		}
		vfs = append(vfs, model.VF{ID: model.VFID{PF: pf, Index: i}, Address: addr, Driver: driver})
		uses = append(uses, use)
	}
	return vfs, uses
}

// vfIndexes returns the sorted indexes N of the virtfnN entries of a directory.
func vfIndexes(names []string) (idx []int) {
	for _, name := range names {
		if n, isVF := strings.CutPrefix(name, "virtfn"); isVF {
			if i, err := strconv.ParseUint(n, 10, 31); err == nil {
				idx = append(idx, int(i))
			}
		}
	}
	slices.Sort(idx)
	return idx
}

// readVF reads the driver and host use of a VF. ok is false if the VF vanished meanwhile.
func readVF(sys sysif.Tree, addr model.PCIAddress) (driver string, use Use, ok bool) {
	dir := sysif.PCIDir(addr)
	driver = sys.Target(dir + "/driver")
	switch {
	case driver == "":
		return "", use, addr != "" && sys.Exists(dir)
	case PassesThrough(driver): // most VFs; saves reading a directory
		return driver, use, true
	}
	use.HostNetdev = netdevOf(sys, dir)
	use.OtherNetns = use.HostNetdev == ""
	flags := sys.Number("class/net/"+use.HostNetdev+"/flags", 0)
	use.HostNetdevUp = flags&unix.IFF_UP != 0
	return driver, use, true
}

// netdevOf returns the first netdev of a PCI function, "" if there is none.
func netdevOf(sys sysif.Tree, dir string) string {
	devs := sys.List(dir + "/net")
	if devs == nil {
		for _, name := range sys.List(dir) {
			if strings.HasPrefix(name, "virtio") {
				devs = append(devs, sys.List(dir+"/"+name+"/net")...)
			}
		}
	}
	if len(devs) == 0 {
		return ""
	}
	return slices.Min(devs)
}

// PassesThrough reports whether a driver creates no netdev because it passes the device through: vfio-pci, its variants such as
// mlx5_vfio_pci, and pci-stub.
func PassesThrough(driver string) bool {
	return strings.Contains(driver, "vfio") || driver == "pci-stub"
}
