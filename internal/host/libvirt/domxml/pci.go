package domxml

import (
	"fmt"

	"github.com/beevik/etree"
)

// RootPort is the model of the PCI controller into which a device can be hot-plugged on PCI Express.
const RootPort = "pcie-root-port"

// Address is an address on the guest's PCI buses.
type Address struct{ Bus, Slot, Function int }

func (a Address) String() string {
	return fmt.Sprintf("bus %d, slot %d, function %d", a.Bus, a.Slot, a.Function)
}

// AddressOf returns the device's address. Missing bus, slot and function count as 0.
func AddressOf(dev *etree.Element) (Address, bool) {
	a := dev.SelectElement("address")
	if a == nil || a.SelectAttrValue("type", "") != "pci" {
		return Address{}, false
	}
	bus, _ := Number(a, "bus")
	slot, _ := Number(a, "slot")
	function, _ := Number(a, "function")
	return Address{bus, slot, function}, true
}

// SetAddress adds the device's address and returns that element.
func SetAddress(dev *etree.Element, a Address) *etree.Element {
	return Child(dev, "address", "type", "pci", "domain", "0x0000",
		"bus", fmt.Sprintf("0x%02x", a.Bus), "slot", fmt.Sprintf("0x%02x", a.Slot), "function", fmt.Sprintf("0x%x", a.Function))
}

// Bridges returns the PCI controllers by index, which is the number of the bus behind them.
func (d *Domain) Bridges() map[int]*etree.Element {
	out := map[int]*etree.Element{}
	for _, e := range d.Devices.SelectElements("controller") {
		if i, ok := Number(e, "index"); ok && e.SelectAttrValue("type", "") == "pci" {
			out[i] = e
		}
	}
	return out
}

// Express reports whether the machine has PCI Express: q35, virt.
func (d *Domain) Express() bool {
	root := d.Bridges()[0]
	return root != nil && root.SelectAttrValue("model", "") == "pcie-root"
}

// Machine returns the machine type, or "".
func (d *Domain) Machine() string {
	if os := d.Root.SelectElement("os"); os != nil {
		return ChildAttr(os, "type", "machine")
	}
	return ""
}

// Buses counts the devices on each bus.
func (d *Domain) Buses() map[int]int {
	out := map[int]int{}
	for _, e := range d.Devices.ChildElements() {
		if a, ok := AddressOf(e); ok {
			out[a.Bus]++
		}
	}
	return out
}

// HasSerial reports whether the domain has a controller for virtio channels.
func (d *Domain) HasSerial() bool {
	for _, e := range d.Devices.SelectElements("controller") {
		if e.SelectAttrValue("type", "") == "virtio-serial" {
			return true
		}
	}
	return false
}
