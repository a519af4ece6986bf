package prepare

import (
	"strconv"
	"strings"

	"github.com/beevik/etree"

	"sluice/internal/host/libvirt/domxml"
)

// Aliases of the added devices.
const (
	portPrefix  = "ua-vfport" // of free root ports; followed by a number
	agentAlias  = "ua-vfagent"
	serialAlias = "ua-vfserial"
	serialPort  = "ua-vfserialport"
)

// agentName is the name of the channel to qemu-guest-agent.
const agentName = "org.qemu.guest_agent.0"

// machine rejects machines on which QEMU cannot plug a VF as half of a pair.
func (e *editor) machine() error {
	if e.express() || e.o.Bond {
		return nil
	}
	return refuse("use a VM of machine q35 (or virt): virt-install --machine q35; or a bond in the guest, with failover: bond in sluice.yaml",
		"its machine %q has no PCI Express, without which QEMU pairs no VF with a virtio NIC", e.Machine())
}

// express reports whether the machine has PCI Express, also if libvirt has not added its controllers yet.
func (e *editor) express() bool {
	m := e.Machine()
	return e.Express() || e.o.Unplaced && e.Bridges()[0] == nil &&
		(m == "q35" || strings.HasPrefix(m, "pc-q35-") || m == "virt" || strings.HasPrefix(m, "virt-"))
}

// acpi adds the ACPI that guests of PCs need to notice a hot-plug. Other architectures need firmware for it that the domain may not have.
func (e *editor) acpi() {
	os := e.Root.SelectElement("os")
	if os == nil {
		return
	}
	if arch := domxml.ChildAttr(os, "type", "arch"); arch != "x86_64" && arch != "i686" {
		return
	}
	features := e.Root.SelectElement("features")
	if features != nil && features.SelectElement("acpi") != nil {
		return
	}
	if features == nil {
		features = etree.NewElement("features")
		features.CreateElement("acpi")
		domxml.AddAfter(os, features)
		e.record.features = true
	} else {
		domxml.Append(features, etree.NewElement("acpi"))
	}
	e.record.acpi = true
	e.changed("ACPI, through which the guest notices that a VF is plugged in")
}

// agent adds a channel to qemu-guest-agent. If it also adds a controller, that gets its own port, because libvirt would otherwise put it on
// a port for VFs.
func (e *editor) agent() error {
	for _, c := range e.Devices.SelectElements("channel") {
		if domxml.ChildAttr(c, "target", "name") == agentName {
			return nil
		}
	}
	own := ""
	if !e.HasSerial() && e.express() {
		bus, err := e.port(serialPort)
		if err != nil {
			return err
		}
		c := domxml.NewDevice("controller", "virtio-serial", serialAlias)
		c.CreateAttr("index", "0")
		domxml.SetAddress(c, domxml.Address{Bus: bus})
		e.add(c)
		own = ", and its controller on a port of its own"
	}
	c := etree.NewElement("channel")
	c.CreateAttr("type", "unix")
	domxml.Child(c, "target", "type", "virtio", "name", agentName)
	domxml.Child(c, "alias", "name", agentAlias)
	e.add(c)
	e.record.agent = true
	e.changed("channel %s, through which qemu-guest-agent in the guest reports that it is up%s", agentName, own)
	return nil
}

// ports adds root ports until each NIC has a free one for its VF.
func (e *editor) ports(nics []*nic) error {
	if !e.express() {
		return nil // its only bus has slots
	}
	for range len(nics) + e.unplaced() - e.freePorts() {
		alias := e.freeAlias(portPrefix)
		bus, err := e.port(alias)
		if err != nil {
			return err
		}
		e.record.ports = append(e.record.ports, alias)
		e.changed("a free PCIe root port for a VF, bus %d", bus)
	}
	return nil
}

// implicit is how many devices libvirt may add by itself: USB, virtio-serial, memory balloon.
const implicit = 3

// unplaced counts, generously, the devices that libvirt has yet to put on ports: it would use the free ones for them. Without any, libvirt
// has completed the XML.
func (e *editor) unplaced() (n int) {
	if !e.o.Unplaced {
		return 0
	}
	for _, dev := range e.Devices.ChildElements() {
		kind := dev.SelectAttrValue("type", "")
		switch dev.Tag {
		case "disk":
			if domxml.ChildAttr(dev, "target", "bus") != "virtio" {
				continue
			}
		case "controller":
			if kind == "pci" {
				continue
			}
		case "hostdev":
			if kind != "pci" {
				continue
			}
		case "input":
			if dev.SelectAttrValue("bus", "") != "virtio" {
				continue
			}
		case "interface", "filesystem", "video", "sound", "watchdog", "memballoon", "rng", "shmem", "vsock", "crypto":
		default:
			continue
		}
		if dev.SelectElement("address") == nil {
			n++
		}
	}
	if n > 0 {
		n += implicit
	}
	return n
}

// freePorts counts the ports with nothing behind them.
func (e *editor) freePorts() (n int) {
	used := e.Buses()
	for i, c := range e.Bridges() {
		m := c.SelectAttrValue("model", "")
		if (m == domxml.RootPort || m == "pcie-switch-downstream-port") && used[i] == 0 && domxml.ChildAttr(c, "target", "hotplug") != "off" {
			n++
		}
	}
	return n
}

// port adds a root port and returns its bus.
func (e *editor) port(alias string) (bus int, err error) {
	bus = 1 // 0 is the root's, also if libvirt has yet to add it
	for i := range e.Bridges() {
		bus = max(bus, i+1)
	}
	at, multi, err := e.place()
	if err != nil {
		return 0, err
	}
	c := domxml.NewDevice("controller", "pci", alias)
	c.CreateAttr("index", strconv.Itoa(bus))
	c.CreateAttr("model", domxml.RootPort)
	a := domxml.SetAddress(c, at)
	if multi {
		a.CreateAttr("multifunction", "on")
	}
	e.add(c)
	return bus, nil
}

// place returns the address for a new port: next to ports that were added before, or in a free slot. libvirt itself would choose a slot
// with other devices in it, and turn those into functions of a multifunction device.
func (e *editor) place() (at domxml.Address, multi bool, err error) {
	var functions [32]int
	var others [32]bool
	for _, dev := range e.Devices.ChildElements() {
		if a, ok := domxml.AddressOf(dev); ok && a.Bus == 0 && a.Slot < len(functions) {
			functions[a.Slot] = max(functions[a.Slot], a.Function+1)
			others[a.Slot] = others[a.Slot] || !ours(domxml.AliasOf(dev))
		}
	}
	const first, last = 2, 0x19 // the other slots hold the host bridge, graphics and the built-in devices of a q35
	for slot := first; slot <= last; slot++ {
		if n := functions[slot]; n > 0 && n < 8 && !others[slot] {
			return domxml.Address{Slot: slot, Function: n}, false, nil
		}
	}
	for slot := first; slot <= last; slot++ {
		if functions[slot] == 0 {
			return domxml.Address{Slot: slot}, true, nil
		}
	}
	return at, false, refuse("remove devices: virsh edit", "it has no free slot on its first PCI bus for another root port")
}

// add inserts a device after the last one of its kind.
func (e *editor) add(dev *etree.Element) {
	if same := e.Devices.SelectElements(dev.Tag); len(same) > 0 {
		domxml.AddAfter(same[len(same)-1], dev)
		return
	}
	domxml.Append(e.Devices, dev)
}
