package migrate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/beevik/etree"

	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/model"
)

// Domain describes a VM that migrates in. NICs lists the NICs that have a VF assigned by Sluice, with alias, MAC, switch ("" if the XML
// does not name it) and VLAN.
type Domain struct {
	ID   model.VMID
	Name string
	NICs []model.NIC

	doc      *domxml.Domain
	hostdevs []*etree.Element // parallel to NICs
}

// Parse reads domain XML. It is an error if a VF assigned by Sluice has no NIC: without the NIC's MAC the guest would not pair it with its
// NIC.
func Parse(xml []byte) (*Domain, error) {
	doc, err := domxml.Parse(string(xml))
	if err != nil {
		return nil, err
	}
	d := &Domain{ID: model.VMID(textOf(doc.Root, "uuid")), Name: textOf(doc.Root, "name"), doc: doc}
	nics, err := interfaces(doc.Devices)
	if err != nil {
		return nil, err
	}
	for _, h := range doc.Devices.SelectElements("hostdev") {
		alias := domxml.AliasOf(h)
		if !model.OwnAlias(alias) {
			continue
		}
		nic := behind(nics, alias, domxml.ChildAttr(h, "teaming", "persistent"))
		if nic == nil {
			return nil, fmt.Errorf("no virtio NIC belongs to %s of %s", alias, d.Name)
		}
		d.NICs, d.hostdevs = append(d.NICs, *nic), append(d.hostdevs, h)
	}
	return d, nil
}

// interfaces lists the NICs that can have a VF.
func interfaces(devices *etree.Element) ([]model.NIC, error) {
	var out []model.NIC
	for _, x := range devices.SelectElements("interface") {
		text := domxml.ChildAttr(x, "mac", "address")
		if x.SelectAttrValue("type", "") == "hostdev" || text == "" {
			continue
		}
		mac, err := model.ParseMAC(text)
		if err != nil {
			return nil, err
		}
		n := model.NIC{Alias: domxml.AliasOf(x), MAC: mac}
		n.Network, _ = domxml.SwitchOf(x, nil)
		if vlan := x.SelectElement("vlan"); vlan != nil {
			n.VLAN, _ = strconv.Atoi(domxml.ChildAttr(vlan, "tag", "id"))
		}
		out = append(out, n)
	}
	return out, nil
}

// behind returns the NIC of a VF: the one its definition names, otherwise the one with its alias, nil if there is none.
func behind(nics []model.NIC, alias, persistent string) *model.NIC {
	for _, same := range []func(*model.NIC) bool{
		func(n *model.NIC) bool { return persistent != "" && n.Alias == persistent },
		func(n *model.NIC) bool { return model.PassthroughAlias(n.MAC) == alias },
	} {
		for i := range nics {
			if same(&nics[i]) {
				return &nics[i]
			}
		}
	}
	return nil
}

// With returns the XML with its VFs replaced by vfs, one for each of NICs. Everything else is unchanged: libvirt accepts no other number of
// devices and no other guest address.
func (d *Domain) With(vfs []model.PCIAddress) ([]byte, error) {
	if len(vfs) != len(d.hostdevs) {
		return nil, fmt.Errorf("%d VFs for %d NICs of %s", len(vfs), len(d.hostdevs), d.Name)
	}
	for i, h := range d.hostdevs {
		address := h.FindElement("source/address")
		if address == nil {
			return nil, fmt.Errorf("%s has no source address", domxml.AliasOf(h))
		}
		if err := setAddress(address, vfs[i]); err != nil {
			return nil, err
		}
	}
	text, err := d.doc.String()
	return []byte(text), err
}

func setAddress(e *etree.Element, a model.PCIAddress) error {
	parts := strings.FieldsFunc(string(a), func(r rune) bool { return r == ':' || r == '.' })
	if len(parts) != 4 {
		return fmt.Errorf("%q is not a PCI address", a)
	}
	for i, name := range []string{"domain", "bus", "slot", "function"} {
		e.CreateAttr(name, "0x"+parts[i])
	}
	return nil
}

func textOf(e *etree.Element, child string) string {
	if c := e.SelectElement(child); c != nil {
		return strings.TrimSpace(c.Text())
	}
	return ""
}
