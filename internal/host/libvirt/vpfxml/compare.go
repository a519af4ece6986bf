package vpfxml

import (
	"fmt"
	"slices"
	"strings"

	"github.com/beevik/etree"

	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/model"
)

// Compare returns the differences between a domain's persistent XML and what Define makes of the virtual PF, one sentence each. Of the
// connection of its taps it compares only the switch.
func Compare(doc string, p *model.VirtualPF) ([]string, error) { return compare(doc, p, false) }

// CompareLive does the same for the XML of a running domain, in which links may be up or down. If the domain has none of the devices, has
// is false.
func CompareLive(doc string, p *model.VirtualPF) (diffs []string, has bool, err error) {
	diffs, err = compare(doc, p, true)
	return diffs, len(diffs) != 1 || diffs[0] != none, err
}

const none = "none of its devices is in the XML"

func compare(doc string, p *model.VirtualPF, live bool) ([]string, error) {
	d, err := parse(doc)
	if err != nil {
		return nil, err
	}
	found := d.functions(p.Name)
	if len(found) == 0 {
		return []string{none}, nil
	}
	diffs := &differences{d: d, p: p, live: live, order: found}
	bus, park := diffs.port(found)
	for _, f := range layout(p, bus, park) {
		diffs.function(f)
	}
	diffs.rest()
	return diffs.out, nil
}

// differences collects the differences between a domain's XML and a definition.
type differences struct {
	d     *domain
	p     *model.VirtualPF
	live  bool
	order []*etree.Element // its functions in the order of the XML
	seen  []string         // aliases of the definition's functions
	out   []string
}

func (c *differences) add(format string, args ...any) {
	c.out = append(c.out, fmt.Sprintf(format, args...))
}

// want records a value that differs from the definition.
func (c *differences) want(what, have, want string) {
	switch {
	case have == want:
	case have == "":
		c.add("%s is missing: want %s", what, want)
	case want == "":
		c.add("%s is %s: want none", what, have)
	default:
		c.add("%s is %s: want %s", what, have, want)
	}
}

// port returns the bus of the virtual PF, which must have no other devices, and the bus of its parked VFs.
func (c *differences) port(found []*etree.Element) (bus, park int) {
	at := c.bus(portAlias(c.p.Name))
	if at < 0 {
		c.add("its root port (alias %s) is missing", portAlias(c.p.Name))
		for _, e := range found {
			if a, ok := domxml.AddressOf(e); ok && domxml.AliasOf(e) == c.p.PFAlias() {
				at = a.Bus
			}
		}
	}
	if crowded(c.p) {
		park = c.bus(parkAlias(c.p.Name))
	}
	for _, e := range c.d.Devices.ChildElements() {
		a, ok := domxml.AddressOf(e)
		if name, _, is := model.ParseVPFAlias(domxml.AliasOf(e)); ok && a.Bus == at && (!is || name != c.p.Name) {
			c.add("its root port has another device on it: %s %s", e.Tag, domxml.AliasOf(e))
		}
	}
	return at, park
}

// bus returns the index of the PCI controller with that alias, or -1.
func (c *differences) bus(alias string) int {
	for i, e := range c.d.Bridges() {
		if domxml.AliasOf(e) == alias {
			return i
		}
	}
	return -1
}

// function compares one function.
func (c *differences) function(f function) {
	c.seen = append(c.seen, f.alias)
	e := c.d.ByAlias("interface", f.alias)
	if e == nil {
		c.add("%s is missing", f.alias)
		return
	}
	want := f.element(c.p, model.TapConnection{Switch: c.p.Network})
	of := func(what string) string { return what + " of " + f.alias }
	c.want(of("the MAC"), strings.ToLower(domxml.ChildAttr(e, "mac", "address")), f.mac.String())
	c.want(of("the model"), domxml.ChildAttr(e, "model", "type"), string(c.p.Model))
	kind := want.SelectAttrValue("type", "")
	if c.want(of("the backend"), e.SelectAttrValue("type", ""), kind); e.SelectAttrValue("type", "") == kind {
		c.want(of("the source"), source(e), source(want))
	}
	switch down := domxml.ChildAttr(e, "link", "state") == "down"; {
	case c.p.Backend == model.BackendVDPA && down:
		c.add("the link of %s is down, and libvirt cannot set that of a vDPA device up", f.alias)
	case c.p.Backend == model.BackendTap && !down && !c.live:
		c.add("the link of %s is up: it would have a carrier before its policy is in force", f.alias)
	}
	if at, ok := domxml.AddressOf(e); !ok || at != f.at {
		c.add("the address of %s is %s: want %s", f.alias, at, f.at)
	}
	if domxml.ChildAttr(want, "address", "multifunction") == "on" && domxml.ChildAttr(e, "address", "multifunction") != "on" {
		c.add("the address of %s has no multifunction='on': its VFs could not be there", f.alias)
	}
	for _, prop := range f.props {
		c.property(f.alias, prop)
	}
}

// source returns the switch or the vDPA device behind an <interface>.
func source(iface *etree.Element) string {
	if name, ok := domxml.SwitchOf(iface, nil); ok {
		return name
	}
	return domxml.ChildAttr(iface, "source", "dev")
}

// property compares a property set by <qemu:override>.
func (c *differences) property(alias string, want property) {
	e := c.d.property(alias, want.name)
	if e == nil {
		c.add("<qemu:override> no longer gives %s the property %s", alias, want.name)
		return
	}
	c.want(fmt.Sprintf("%s of %s in <qemu:override>", want.name, alias), e.SelectAttrValue("value", ""), want.value)
}

// property finds a property of a device in <qemu:override>. The last one applies.
func (d *domain) property(alias, name string) (found *etree.Element) {
	over := d.overrides()
	if over == nil {
		return nil
	}
	for _, dev := range over.ChildElements() {
		front := inQEMU(dev, "frontend")
		if front == nil || dev.SelectAttrValue("alias", "") != alias {
			continue
		}
		for _, e := range front.ChildElements() {
			if e.SelectAttrValue("name", "") == name {
				found = e
			}
		}
	}
	return found
}

// rest compares what does not concern a single function.
func (c *differences) rest() {
	var have []string
	for _, e := range c.order {
		alias := domxml.AliasOf(e)
		if have = append(have, alias); !slices.Contains(c.seen, alias) {
			c.add("%s exists, but was not defined", alias)
		}
	}
	if i := slices.Index(have, c.p.PFAlias()); i >= 0 && i < len(have)-1 {
		c.add("%s comes before %s: QEMU wants the PF last", c.p.PFAlias(), have[i+1])
	}
	if c.p.Channel && c.d.channel() == nil {
		c.add("the channel %s is missing: nobody in the guest can ask for a VF", channelName)
	}
}

// Adopt sets the MACs that p lacks from the domain's XML if the virtual PF otherwise exists there exactly as p specifies. The MACs of an
// igb's VFs are not in the XML.
func Adopt(doc string, p *model.VirtualPF) bool {
	d, err := parse(doc)
	if err != nil {
		return false
	}
	want := *p
	want.VFs = slices.Clone(p.VFs)
	adopt := func(m *model.MAC, alias string) {
		if e := d.ByAlias("interface", alias); e != nil && m.IsZero() {
			*m, _ = model.ParseMAC(domxml.ChildAttr(e, "mac", "address"))
		}
	}
	adopt(&want.MAC, p.PFAlias())
	for i := range want.VFs {
		adopt(&want.VFs[i].MAC, p.VFAlias(i))
	}
	if diffs, err := Compare(doc, &want); err != nil || len(diffs) > 0 {
		return false
	}
	*p = want
	return true
}
