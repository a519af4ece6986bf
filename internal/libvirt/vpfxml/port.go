package vpfxml

import (
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

// The aliases of what is added beside functions. None can be that of a function.
const (
	portPrefix  = "ua-vpf-"
	portSuffix  = "-port"
	parkSuffix  = "-park" // the bridge that libvirt believes VFs to be on that ARI places elsewhere
	stemSuffix  = "-stem" // the root port of that bridge
	serialPort  = "ua-vpf-serialport"
	serialAlias = "ua-vpf-serial"
	chanAlias   = "ua-vpf-channel"
)

func portAlias(name string) string { return portPrefix + name + portSuffix }
func parkAlias(name string) string { return portPrefix + name + parkSuffix }
func stemAlias(name string) string { return portPrefix + name + stemSuffix }

// bridges are the PCI controllers by their index, which is the number of the bus behind them.
func (d *domain) bridges() map[int]*etree.Element {
	out := map[int]*etree.Element{}
	for _, e := range d.devices.SelectElements("controller") {
		if i, ok := number(e, "index"); ok && e.SelectAttrValue("type", "") == "pci" {
			out[i] = e
		}
	}
	return out
}

// express says whether the machine has PCI Express: q35, virt.
func (d *domain) express() bool {
	root := d.bridges()[0]
	return root != nil && root.SelectAttrValue("model", "") == "pcie-root"
}

// bridge is the index of a PCI controller with that alias, which is the number of the bus behind it. One that an
// earlier virtual PF left behind is used again. A new one gets the next index: libvirt fills a free one below with a port of its own.
func (d *domain) bridge(kind, alias string) (e *etree.Element, index int) {
	all, used := d.bridges(), d.buses()
	for i := range all {
		index = max(index, i+1)
		if aliasOf(all[i]) == alias {
			return all[i], i
		}
	}
	for i := range index {
		if e := all[i]; kind == rootPort && e != nil && isPort(aliasOf(e)) && used[i] == 0 {
			e.SelectElement("alias").CreateAttr("name", alias)
			return e, i
		}
	}
	e = newDevice("controller", "pci", alias)
	e.CreateAttr("index", strconv.Itoa(index))
	e.CreateAttr("model", kind)
	d.insert(e)
	return e, index
}

const rootPort = "pcie-root-port"

// park is the bus of a bridge with room for all VFs that libvirt has no function for, behind a port of its own. In the
// guest it is empty.
func (d *domain) park(name string) int {
	stem, bus := d.bridge(rootPort, stemAlias(name))
	if stem.SelectElement("target") == nil {
		child(stem, "target", "hotplug", "off") // the firmware reserves nothing for it
	}
	e, index := d.bridge("pcie-to-pci-bridge", parkAlias(name))
	if e.SelectElement("address") == nil {
		setAddress(e, pciAddress{bus: bus})
	}
	return index
}

func isPort(alias string) bool {
	return strings.HasPrefix(alias, portPrefix) && strings.HasSuffix(alias, portSuffix)
}

// ours says whether a PCI controller was added for virtual PFs.
func ours(alias string) bool {
	for _, suffix := range []string{portSuffix, parkSuffix, stemSuffix} {
		if strings.HasPrefix(alias, portPrefix) && strings.HasSuffix(alias, suffix) {
			return true
		}
	}
	return alias == serialPort
}

// buses counts the devices on each bus.
func (d *domain) buses() map[int]int {
	out := map[int]int{}
	for _, e := range d.devices.ChildElements() {
		if a, ok := addressOf(e); ok {
			out[a.bus]++
		}
	}
	return out
}

// trimBridges takes away the controllers that were added and have nothing behind them any more. One that has
// others above it stays for the next virtual PF: libvirt would fill its index with a port of its own.
func (d *domain) trimBridges() {
	for {
		all := d.bridges()
		last := 0
		for i := range all {
			last = max(last, i)
		}
		e := all[last]
		if e == nil || !ours(aliasOf(e)) || d.buses()[last] > 0 {
			return
		}
		d.devices.RemoveChild(e)
	}
}
