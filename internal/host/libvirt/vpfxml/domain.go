// Package vpfxml edits and compares the XML of domains that have virtual PFs. It makes no calls to libvirt.
//
// A virtual PF of a virtio model is one <interface> per VF and one for the PF, which comes last, all on their own pcie-root-port: the VFs
// are functions 1, 2, ..., the PF is function 0. <qemu:override> sets QEMU's property sriov-pf on each VF. An igb creates its VFs itself,
// and is one <interface>. All added devices are recognized by their aliases.
package vpfxml

import (
	"cmp"

	"github.com/beevik/etree"

	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/model"
)

// qemuSpace is the XML namespace of <qemu:override>.
const qemuSpace = "http://libvirt.org/schemas/domain/qemu/1.0"

// domain is a domain's XML with methods for the virtual PFs in it.
type domain struct{ *domxml.Domain }

func parse(doc string) (*domain, error) {
	d, err := domxml.Parse(doc)
	return &domain{d}, err
}

// functions returns the interfaces of the named virtual PF, or of all if name is "".
func (d *domain) functions(name string) []*etree.Element {
	var out []*etree.Element
	for _, e := range d.Devices.SelectElements("interface") {
		if n, _, ok := model.ParseVPFAlias(domxml.AliasOf(e)); ok && (name == "" || n == name) {
			out = append(out, e)
		}
	}
	return out
}

// MACs returns the MACs of all interfaces, with the alias of each interface ("an interface" if it has none).
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
