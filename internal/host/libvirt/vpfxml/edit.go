package vpfxml

import (
	"fmt"

	"github.com/beevik/etree"

	"sluice/internal/channel"
	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/model"
)

// channelName is the name by which the guest finds its end of the channel.
const channelName = channel.Port

// Define adds the virtual PF to a domain's persistent XML, its taps connected as given. All MACs of p must be set.
func Define(doc string, p *model.VirtualPF, taps model.TapConnection) (string, error) {
	d, err := parse(doc)
	if err != nil {
		return "", err
	}
	if err := d.fits(p); err != nil {
		return "", err
	}
	park := 0
	if crowded(p) {
		park = d.park(p.Name)
	}
	_, bus := d.bridge(domxml.RootPort, portAlias(p.Name))
	for _, f := range layout(p, bus, park) {
		d.Insert(f.element(p, taps))
		d.override(f)
	}
	if p.Channel {
		d.addChannel()
	}
	return d.String()
}

// Undefine removes the virtual PF and, with the last one, the shared devices. It reports whether the virtual PF existed.
func Undefine(doc, name string) (string, bool, error) {
	d, err := parse(doc)
	if err != nil {
		return "", false, err
	}
	all := d.functions(name)
	if len(all) == 0 {
		return doc, false, nil
	}
	for _, e := range all {
		d.Devices.RemoveChild(e)
		d.dropOverride(domxml.AliasOf(e))
	}
	if len(d.functions("")) == 0 {
		d.dropChannel()
	}
	d.trimBridges()
	out, err := d.String()
	return out, true, err
}

// element returns the function's <interface>. A tap starts without a carrier; libvirt cannot change the link of a vDPA device, whose only
// policy is its MAC.
func (f *function) element(p *model.VirtualPF, taps model.TapConnection) *etree.Element {
	kind, vdpa := domxml.TapType, p.Backend == model.BackendVDPA
	if vdpa {
		kind = "vdpa"
	}
	e := domxml.NewDevice("interface", kind, f.alias)
	domxml.Child(e, "mac", "address", f.mac.String())
	if vdpa {
		domxml.Child(e, "source", "dev", model.VDPAPath(model.VDPAName(p.VM, p.Name, f.vf)))
	} else {
		domxml.Connect(e, taps)
	}
	domxml.Child(e, "model", "type", string(p.Model))
	if !vdpa {
		domxml.Child(e, "link", "state", "down")
	}
	domxml.Child(e, "rom", "enabled", "no")
	address := domxml.SetAddress(e, f.at)
	if f.vf < 0 && len(p.VFs) > 0 && p.Model == model.VPFVirtio {
		address.CreateAttr("multifunction", "on")
	}
	return e
}

// override sets the function's properties that libvirt does not support.
func (d *domain) override(f function) {
	if len(f.props) == 0 {
		return
	}
	prefix := d.qemuPrefix()
	over := d.overrides()
	if over == nil {
		over = d.Root.CreateElement(prefix + "override")
	}
	front := domxml.Child(over, prefix+"device", "alias", f.alias).CreateElement(prefix + "frontend")
	for _, prop := range f.props {
		domxml.Child(front, prefix+"property", "name", prop.name, "type", "string", "value", prop.value)
	}
}

// qemuPrefix returns the prefix of QEMU's namespace with its colon, and declares the namespace if needed.
func (d *domain) qemuPrefix() string {
	for _, a := range d.Root.Attr {
		if a.Space == "xmlns" && a.Value == qemuSpace {
			return a.Key + ":"
		}
	}
	d.Root.CreateAttr("xmlns:qemu", qemuSpace)
	return "qemu:"
}

// overrides returns <qemu:override>, or nil.
func (d *domain) overrides() *etree.Element { return inQEMU(d.Root, "override") }

// inQEMU returns the first child of that name in QEMU's namespace, or nil.
func inQEMU(e *etree.Element, tag string) *etree.Element {
	for _, c := range e.ChildElements() {
		if c.Tag == tag && c.NamespaceURI() == qemuSpace {
			return c
		}
	}
	return nil
}

// dropOverride removes the overrides of a device, and the whole element if it is then empty.
func (d *domain) dropOverride(alias string) {
	over := d.overrides()
	if over == nil {
		return
	}
	for _, dev := range over.ChildElements() {
		if dev.SelectAttrValue("alias", "") == alias {
			over.RemoveChild(dev)
		}
	}
	if len(over.ChildElements()) == 0 {
		d.Root.RemoveChild(over)
	}
}

// addChannel adds a channel between guest and host, if there is none. If its controller is missing too, it adds one on its own port,
// because libvirt would otherwise put it on a port meant for hot-plug.
func (d *domain) addChannel() {
	if d.channel() != nil {
		return
	}
	if !d.HasSerial() {
		_, bus := d.bridge(domxml.RootPort, serialPort)
		e := domxml.NewDevice("controller", "virtio-serial", serialAlias)
		e.CreateAttr("index", "0")
		domxml.SetAddress(e, domxml.Address{Bus: bus})
		d.Insert(e)
	}
	e := domxml.NewDevice("channel", "unix", chanAlias)
	domxml.Child(e, "source", "mode", "bind")
	domxml.Child(e, "target", "type", "virtio", "name", channelName)
	d.Insert(e)
}

// channel returns the channel to sluice-guest, or nil.
func (d *domain) channel() *etree.Element {
	for _, e := range d.Devices.SelectElements("channel") {
		if domxml.ChildAttr(e, "target", "name") == channelName {
			return e
		}
	}
	return nil
}

// dropChannel removes the channel and its controller if addChannel added them; the controller only if nothing else uses it.
func (d *domain) dropChannel() {
	if e := d.ByAlias("channel", chanAlias); e != nil {
		d.Devices.RemoveChild(e)
	}
	e := d.ByAlias("controller", serialAlias)
	if e == nil {
		return
	}
	for _, dev := range d.Devices.ChildElements() {
		if a := dev.SelectElement("address"); a != nil && a.SelectAttrValue("type", "") == "virtio-serial" {
			return
		}
	}
	d.Devices.RemoveChild(e)
}

// fits returns an error if the domain cannot have the virtual PF.
func (d *domain) fits(p *model.VirtualPF) error {
	switch {
	case len(d.functions(p.Name)) > 0:
		return fmt.Errorf("%w: it has a virtual PF %s already: choose another name, or undefine that one first", model.ErrPermanent, p.Name)
	case !d.Express():
		return fmt.Errorf("%w: no root port: its machine %q has no PCI Express: SR-IOV needs q35, or virt", model.ErrPermanent, d.Machine())
	case p.Channel && d.channel() != nil && d.channel().SelectAttrValue("type", "") != "unix":
		return fmt.Errorf("%w: its channel %s is not of type unix: remove it, and define the virtual PF again", model.ErrPermanent, channelName)
	}
	return nil
}
