// Package vpfxml edits and compares the XML of domains that have virtual PFs. It makes no call.
//
// A virtual PF of a virtio model is one <interface> per VF and one for the PF, which comes last, all on one
// pcie-root-port of their own: the VFs in functions 1, 2, ..., the PF in function 0. <qemu:override> gives each VF QEMU's property
// sriov-pf. An igb makes its VFs itself, and is one <interface>. What is added is known again by its aliases.
package vpfxml

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/beevik/etree"

	"sluice/internal/model"
)

// qemuSpace is the XML namespace of <qemu:override>.
const qemuSpace = "http://libvirt.org/schemas/domain/qemu/1.0"

// domain is a domain's XML, as a tree in which what is not known here stays as it is.
type domain struct {
	doc     *etree.Document
	root    *etree.Element
	devices *etree.Element
}

func parse(doc string) (*domain, error) {
	d := &domain{doc: etree.NewDocument()}
	d.doc.ReadSettings.PreserveCData = true
	if err := d.doc.ReadFromString(doc); err != nil {
		return nil, fmt.Errorf("read domain XML: %w", err)
	}
	if d.root = d.doc.SelectElement("domain"); d.root == nil {
		return nil, errors.New("read domain XML: it has no <domain>")
	}
	if d.devices = d.root.SelectElement("devices"); d.devices == nil {
		d.devices = d.root.CreateElement("devices")
	}
	return d, nil
}

// aliasOf is the alias of a device, or "".
func aliasOf(dev *etree.Element) string { return childAttr(dev, "alias", "name") }

// childAttr is an attribute of an element's child, or "".
func childAttr(e *etree.Element, child, key string) string {
	if c := e.SelectElement(child); c != nil {
		return c.SelectAttrValue(key, "")
	}
	return ""
}

// byAlias is the device of that kind and alias, or nil.
func (d *domain) byAlias(tag, alias string) *etree.Element {
	for _, e := range d.devices.SelectElements(tag) {
		if aliasOf(e) == alias {
			return e
		}
	}
	return nil
}

// functions are the interfaces of virtual PFs, of one or (name is "") of all.
func (d *domain) functions(name string) []*etree.Element {
	var out []*etree.Element
	for _, e := range d.devices.SelectElements("interface") {
		if n, _, ok := model.ParseVPFAlias(aliasOf(e)); ok && (name == "" || n == name) {
			out = append(out, e)
		}
	}
	return out
}

// number reads an attribute that libvirt writes in decimal or, with 0x, in hexadecimal.
func number(e *etree.Element, key string) (int, bool) {
	n, err := strconv.ParseUint(e.SelectAttrValue(key, ""), 0, 31)
	return int(n), err == nil
}

// pciAddress is a place on the guest's PCI buses.
type pciAddress struct{ bus, slot, function int }

func (a pciAddress) String() string {
	return fmt.Sprintf("bus %d, slot %d, function %d", a.bus, a.slot, a.function)
}

// addressOf is the device's place. Bus, slot and function count as 0 where they are not said.
func addressOf(dev *etree.Element) (pciAddress, bool) {
	a := dev.SelectElement("address")
	if a == nil || a.SelectAttrValue("type", "") != "pci" {
		return pciAddress{}, false
	}
	bus, _ := number(a, "bus")
	slot, _ := number(a, "slot")
	function, _ := number(a, "function")
	return pciAddress{bus, slot, function}, true
}

func setAddress(dev *etree.Element, a pciAddress) *etree.Element {
	e := dev.CreateElement("address")
	e.CreateAttr("type", "pci")
	e.CreateAttr("domain", "0x0000")
	e.CreateAttr("bus", fmt.Sprintf("0x%02x", a.bus))
	e.CreateAttr("slot", fmt.Sprintf("0x%02x", a.slot))
	e.CreateAttr("function", fmt.Sprintf("0x%x", a.function))
	return e
}

// insert puts a device behind the last one of its kind, or at the end.
func (d *domain) insert(dev *etree.Element) {
	same := d.devices.SelectElements(dev.Tag)
	if len(same) == 0 {
		d.devices.AddChild(dev)
		return
	}
	d.devices.InsertChildAt(same[len(same)-1].Index()+1, dev)
}

// newDevice is an element with an alias.
func newDevice(tag, kind, alias string) *etree.Element {
	e := etree.NewElement(tag)
	e.CreateAttr("type", kind)
	child(e, "alias", "name", alias)
	return e
}

// child adds a child with attributes.
func child(e *etree.Element, tag string, attrs ...string) *etree.Element {
	c := e.CreateElement(tag)
	for i := 0; i+1 < len(attrs); i += 2 {
		c.CreateAttr(attrs[i], attrs[i+1])
	}
	return c
}

// MACs lists the MACs of all interfaces, each with the alias of who has it ("an interface" where it has none).
func MACs(doc string) (map[model.MAC]string, error) {
	d, err := parse(doc)
	if err != nil {
		return nil, err
	}
	out := map[model.MAC]string{}
	for _, e := range d.devices.SelectElements("interface") {
		if mac, err := model.ParseMAC(childAttr(e, "mac", "address")); err == nil {
			out[mac] = cmp.Or(aliasOf(e), "an interface")
		}
	}
	return out, nil
}
