package vpfxml

import (
	"strconv"
	"strings"

	"github.com/beevik/etree"

	"sluice/internal/host/libvirt/domxml"
)

// Aliases of the devices added besides the functions. None can equal a function's alias.
const (
	portPrefix  = "ua-vpf-"
	portSuffix  = "-port"
	parkSuffix  = "-park" // the bridge on which libvirt places the VFs that ARI places elsewhere
	stemSuffix  = "-stem" // the root port of that bridge
	serialPort  = "ua-vpf-serialport"
	serialAlias = "ua-vpf-serial"
	chanAlias   = "ua-vpf-channel"
)

func portAlias(name string) string { return portPrefix + name + portSuffix }
func parkAlias(name string) string { return portPrefix + name + parkSuffix }
func stemAlias(name string) string { return portPrefix + name + stemSuffix }

// bridge returns the PCI controller with that alias and its index, which is the number of the bus behind it. It reuses a port left by an
// earlier virtual PF. A new controller gets an index above all others: libvirt fills unused lower ones with ports of its own.
func (d *domain) bridge(kind, alias string) (e *etree.Element, index int) {
	all, used := d.Bridges(), d.Buses()
	for i := range all {
		index = max(index, i+1)
		if domxml.AliasOf(all[i]) == alias {
			return all[i], i
		}
	}
	for i := range index {
		if e := all[i]; kind == domxml.RootPort && e != nil && isPort(domxml.AliasOf(e)) && used[i] == 0 {
			e.SelectElement("alias").CreateAttr("name", alias)
			return e, i
		}
	}
	e = domxml.NewDevice("controller", "pci", alias)
	e.CreateAttr("index", strconv.Itoa(index))
	e.CreateAttr("model", kind)
	d.Insert(e)
	return e, index
}

// park returns the bus of a bridge, on its own port, with room for the VFs for which libvirt has no function. The guest sees it empty.
func (d *domain) park(name string) int {
	stem, bus := d.bridge(domxml.RootPort, stemAlias(name))
	if stem.SelectElement("target") == nil {
		domxml.Child(stem, "target", "hotplug", "off") // so that the firmware reserves no resources for it
	}
	e, index := d.bridge("pcie-to-pci-bridge", parkAlias(name))
	if e.SelectElement("address") == nil {
		domxml.SetAddress(e, domxml.Address{Bus: bus})
	}
	return index
}

func isPort(alias string) bool {
	return strings.HasPrefix(alias, portPrefix) && strings.HasSuffix(alias, portSuffix)
}

// ours reports whether a PCI controller was added for virtual PFs.
func ours(alias string) bool {
	for _, suffix := range []string{portSuffix, parkSuffix, stemSuffix} {
		if strings.HasPrefix(alias, portPrefix) && strings.HasSuffix(alias, suffix) {
			return true
		}
	}
	return alias == serialPort
}

// trimBridges removes the added controllers that are empty. One with a higher-numbered controller stays for the next virtual PF: libvirt
// would fill its index with a port of its own.
func (d *domain) trimBridges() {
	for {
		all := d.Bridges()
		last := 0
		for i := range all {
			last = max(last, i)
		}
		e := all[last]
		if e == nil || !ours(domxml.AliasOf(e)) || d.Buses()[last] > 0 {
			return
		}
		d.Devices.RemoveChild(e)
	}
}
