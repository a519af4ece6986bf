// Package domxml edits domain XML as a tree and leaves elements that it does not know unchanged. It makes no calls to libvirt.
package domxml

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/beevik/etree"
)

// Domain is a domain's XML.
type Domain struct {
	Doc     *etree.Document
	Root    *etree.Element // <domain>
	Devices *etree.Element // <devices>
}

// Parse parses a domain's XML.
func Parse(doc string) (*Domain, error) {
	d := &Domain{Doc: etree.NewDocument()}
	d.Doc.ReadSettings.PreserveCData = true
	if err := d.Doc.ReadFromString(doc); err != nil {
		return nil, fmt.Errorf("read domain XML: %w", err)
	}
	if d.Root = d.Doc.SelectElement("domain"); d.Root == nil {
		return nil, errors.New("read domain XML: it has no <domain>")
	}
	if d.Devices = d.Root.SelectElement("devices"); d.Devices == nil {
		d.Devices = d.Root.CreateElement("devices")
	}
	return d, nil
}

// AliasOf returns the alias of a device, or "".
func AliasOf(dev *etree.Element) string { return ChildAttr(dev, "alias", "name") }

// ChildAttr returns an attribute of an element's child, or "".
func ChildAttr(e *etree.Element, child, key string) string {
	if c := e.SelectElement(child); c != nil {
		return c.SelectAttrValue(key, "")
	}
	return ""
}

// ByAlias returns the device of that kind and alias, or nil.
func (d *Domain) ByAlias(tag, alias string) *etree.Element {
	for _, e := range d.Devices.SelectElements(tag) {
		if AliasOf(e) == alias {
			return e
		}
	}
	return nil
}

// Number parses an attribute that libvirt writes in decimal or, with 0x, in hexadecimal.
func Number(e *etree.Element, key string) (int, bool) {
	n, err := strconv.ParseUint(e.SelectAttrValue(key, ""), 0, 31)
	return int(n), err == nil
}

// Insert adds a device after the last one of its kind, or at the end.
func (d *Domain) Insert(dev *etree.Element) {
	same := d.Devices.SelectElements(dev.Tag)
	if len(same) == 0 {
		d.Devices.AddChild(dev)
		return
	}
	d.Devices.InsertChildAt(same[len(same)-1].Index()+1, dev)
}

// NewDevice returns an element with a type and an alias.
func NewDevice(tag, kind, alias string) *etree.Element {
	e := etree.NewElement(tag)
	e.CreateAttr("type", kind)
	Child(e, "alias", "name", alias)
	return e
}

// Child adds a child element; attrs are pairs of name and value.
func Child(e *etree.Element, tag string, attrs ...string) *etree.Element {
	c := e.CreateElement(tag)
	for i := 0; i+1 < len(attrs); i += 2 {
		c.CreateAttr(attrs[i], attrs[i+1])
	}
	return c
}

// Prepared is the XML namespace of the record of `sluice prepare` in a domain's <metadata>.
const Prepared = "urn:sluice:prepared:1"
