package prepare

import (
	"strings"

	"github.com/beevik/etree"

	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/model"
)

// record lists what was added to a domain. In its metadata:
//
//	<sluice:prepared xmlns:sluice="urn:sluice:prepared:1" acpi="added" agent="added">
//	  <sluice:nic mac="52:54:00:00:00:01" teaming="added" alias="ua-net0"/>
//	  <sluice:port alias="ua-vfport0"/>
//	</sluice:prepared>
//
// NICs are identified by their MACs, ports and channels by the aliases that were added.
type record struct {
	e        *etree.Element // its element in the XML; nil: not there yet
	metadata bool           // <metadata> itself was added
	features bool           // <features> itself was added
	acpi     bool
	agent    bool
	nics     []*nicRecord // the chosen NICs, whether or not something was added to them
	ports    []string     // aliases
}

type nicRecord struct {
	mac     model.MAC
	teaming bool
	alias   string // the alias that was added
}

const added = "added"

func readRecord(d *domxml.Domain) (*record, error) {
	r := &record{}
	metadata := d.Root.SelectElement("metadata")
	if metadata == nil {
		return r, nil
	}
	for _, e := range metadata.ChildElements() {
		if e.NamespaceURI() != domxml.Prepared {
			continue
		}
		r.e = e
		is := func(key string) bool { return e.SelectAttrValue(key, "") == added }
		r.metadata, r.features, r.acpi, r.agent = is("metadata"), is("features"), is("acpi"), is("agent")
		for _, c := range e.ChildElements() {
			switch c.Tag {
			case "port":
				r.ports = append(r.ports, c.SelectAttrValue("alias", ""))
			case "nic":
				mac, err := model.ParseMAC(c.SelectAttrValue("mac", ""))
				if err != nil {
					return nil, refuse("correct or remove that element: virsh edit",
						"the record of its preparation in <metadata> cannot be read: %v", err)
				}
				r.nics = append(r.nics, &nicRecord{mac: mac, teaming: c.SelectAttrValue("teaming", "") == added, alias: c.SelectAttrValue("alias", "")})
			}
		}
	}
	return r, nil
}

// find returns the record of a NIC, or nil.
func (r *record) find(mac model.MAC) *nicRecord {
	for _, n := range r.nics {
		if n.mac == mac {
			return n
		}
	}
	return nil
}

// of returns the record of a NIC and creates it if needed, which marks the NIC as chosen.
func (r *record) of(mac model.MAC) *nicRecord {
	n := r.find(mac)
	if n == nil {
		n = &nicRecord{mac: mac}
		r.nics = append(r.nics, n)
	}
	return n
}

// write adds the record to the domain, or replaces the one there.
func (r *record) write(d *domxml.Domain) {
	if r.e != nil {
		domxml.AddAfter(r.e, r.element())
		domxml.Remove(r.e)
		return
	}
	if metadata := d.Root.SelectElement("metadata"); metadata != nil {
		domxml.Append(metadata, r.element())
		return
	}
	r.metadata = true
	metadata := etree.NewElement("metadata")
	metadata.AddChild(r.element())
	head := d.Root.ChildElements()[0]
	for _, tag := range []string{"name", "uuid", "title", "description"} {
		if e := d.Root.SelectElement(tag); e != nil {
			head = e
		}
	}
	domxml.AddAfter(head, metadata)
}

func (r *record) element() *etree.Element {
	const prefix = "sluice:"
	e := etree.NewElement(prefix + "prepared")
	e.CreateAttr("xmlns:"+strings.TrimSuffix(prefix, ":"), domxml.Prepared)
	for _, a := range []struct {
		key string
		is  bool
	}{{"metadata", r.metadata}, {"features", r.features}, {"acpi", r.acpi}, {"agent", r.agent}} {
		if a.is {
			e.CreateAttr(a.key, added)
		}
	}
	for _, n := range r.nics {
		c := domxml.Child(e, prefix+"nic", "mac", n.mac.String())
		if n.teaming {
			c.CreateAttr("teaming", added)
		}
		if n.alias != "" {
			c.CreateAttr("alias", n.alias)
		}
	}
	for _, alias := range r.ports {
		domxml.Child(e, prefix+"port", "alias", alias)
	}
	return e
}
