// Package vpfxml edits and compares the XML of domains that have virtual PFs. It makes no call.
//
// A virtual PF of a virtio model is one <interface> per VF and one for the PF, which comes last, all on one
// pcie-root-port of their own: the VFs in functions 1, 2, ..., the PF in function 0. <qemu:override> gives each VF QEMU's property
// sriov-pf. An igb makes its VFs itself, and is one <interface>. Whatever is added is recognized by its alias.
package vpfxml

import (
	"cmp"

	"github.com/beevik/etree"

	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/model"
)

// qemuSpace is the XML namespace of <qemu:override>.
const qemuSpace = "http://libvirt.org/schemas/domain/qemu/1.0"

// domain is a domain's XML with what is known of virtual PFs in it.
type domain struct{ *domxml.Domain }

func parse(doc string) (*domain, error) {
	d, err := domxml.Parse(doc)
	return &domain{d}, err
}

// functions are the interfaces of virtual PFs, of one or (name is "") of all.
func (d *domain) functions(name string) []*etree.Element {
	var out []*etree.Element
	for _, e := range d.Devices.SelectElements("interface") {
		if n, _, ok := model.ParseVPFAlias(domxml.AliasOf(e)); ok && (name == "" || n == name) {
			out = append(out, e)
		}
	}
	return out
}

// MACs lists the MACs of all interfaces, each with the alias of who has it ("an interface" where it has none).
func MACs(doc string) (map[model.MAC]string, error) {
	d, err := parse(doc)
	if err != nil {
		return nil, err
	}
	out := map[model.MAC]string{}
	for _, e := range d.Devices.SelectElements("interface") {
		if mac, err := model.ParseMAC(domxml.ChildAttr(e, "mac", "address")); err == nil {
			out[mac] = cmp.Or(domxml.AliasOf(e), "an interface")
		}
	}
	return out, nil
}
