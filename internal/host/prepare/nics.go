package prepare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/beevik/etree"

	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/model"
)

// nic is an <interface>.
type nic struct {
	model.NIC      // alias, MAC and network
	switched  bool // libvirt connects its tap to a switch
	e         *etree.Element
}

// name returns the name shown to users.
func (n *nic) name() string {
	if n.Alias != "" {
		return n.Alias + " (" + n.MAC.String() + ")"
	}
	return n.MAC.String()
}

func teaming(e *etree.Element) string { return domxml.ChildAttr(e, "teaming", "type") }

// trunk reports whether the NIC's port carries several VLANs, which libvirt can tell Open vSwitch only.
func trunk(iface *etree.Element) bool {
	vlan := iface.SelectElement("vlan")
	return vlan != nil && (vlan.SelectAttrValue("trunk", "") == "yes" || len(vlan.SelectElements("tag")) > 1)
}

// nics returns the interfaces except VFs and functions of virtual PFs.
func (e *editor) nics() ([]*nic, error) {
	var out []*nic
	for _, dev := range e.Devices.SelectElements("interface") {
		alias := domxml.AliasOf(dev)
		if _, _, function := model.ParseVPFAlias(alias); function || dev.SelectAttrValue("type", "") == "hostdev" {
			continue
		}
		mac, err := model.ParseMAC(domxml.ChildAttr(dev, "mac", "address"))
		if err != nil {
			return nil, refuse("give it one: virsh edit", "one of its interfaces has no valid MAC: %v", err)
		}
		if slices.ContainsFunc(out, func(n *nic) bool { return n.MAC == mac }) {
			return nil, refuse("give each its own: virsh edit", "two of its interfaces have the MAC %s", mac)
		}
		n := &nic{NIC: model.NIC{Alias: alias, MAC: mac}, e: dev}
		n.Network, n.switched = domxml.SwitchOf(dev, e.o.Switches)
		n.Network = cmp.Or(n.Network, domxml.ChildAttr(dev, "source", "network"))
		out = append(out, n)
	}
	return out, nil
}

// unfit returns why a NIC cannot have a VF, nil if it can.
func (e *editor) unfit(n *nic) error {
	hardware := domxml.ChildAttr(n.e, "model", "type")
	switch {
	case !strings.HasPrefix(hardware, "virtio"):
		return refuse("write <model type='virtio'/> in it, if the guest has the driver: virsh edit", "its NIC %s is of model %q, not virtio",
			n.name(), hardware)
	case !n.switched:
		return refuse("make it "+e.suitable()+": virsh edit", "its NIC %s is of type %s, which has no tap on a switch", n.name(),
			n.e.SelectAttrValue("type", ""))
	case len(e.o.Networks) > 0 && !e.o.Networks[n.Network]:
		return refuse("list a PF of that network in sluice.yaml, choose another NIC with --nic, or, if no controller manages its port, make it "+
			e.suitable(),
			"its NIC %s is on %s, to which no PF of Sluice's pool leads", n.name(), n.Network)
	case trunk(n.e):
		return refuse("leave one <tag> in its <vlan>, without trunk='yes', or choose another NIC with --nic",
			"its NIC %s is a trunk, and a VF carries one VLAN", n.name())
	case teaming(n.e) != "" && teaming(n.e) != "persistent":
		return refuse("choose another NIC with --nic, or remove its <teaming>: virsh edit", "its NIC %s is the %s half of another pair",
			n.name(), teaming(n.e))
	}
	for _, dev := range e.Devices.ChildElements() {
		if teaming(dev) == "transient" && n.Alias != "" && domxml.ChildAttr(dev, "teaming", "persistent") == n.Alias {
			return refuse("remove that device from the definition: virsh edit", "its NIC %s is already paired with a <%s> in its definition",
				n.name(), dev.Tag)
		}
	}
	return nil
}

// suitable describes an <interface> on the same switch as one of Sluice's PFs.
func (e *editor) suitable() string {
	if len(e.o.Connect) == 0 {
		return "an <interface> on the switch of a PF that sluice.yaml lists"
	}
	all := make([]string, len(e.o.Connect))
	for i, c := range e.o.Connect {
		all[i] = domxml.Describe(c)
	}
	return strings.Join(all, ", or ")
}

// choose returns the NICs that are to have VFs: those named in the options and those chosen earlier.
func (e *editor) choose() ([]*nic, error) {
	all, err := e.nics()
	if err != nil {
		return nil, err
	}
	var fit, out []*nic
	why := refuse("add "+e.suitable()+", of <model type='virtio'/>: virsh edit", "it has no virtio NIC to fall back to")
	for _, n := range all {
		if err := e.unfit(n); err != nil {
			why = err
			continue
		}
		fit = append(fit, n)
		if e.record.find(n.MAC) != nil || teaming(n.e) != "" {
			out = append(out, n)
		}
	}
	for _, pattern := range e.o.NICs {
		found, err := e.named(all, fit, pattern)
		if err != nil {
			return nil, err
		}
		for _, n := range found {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	switch {
	case len(out) > 0:
		return out, nil
	case len(fit) == 0:
		return nil, why
	case len(fit) > 1:
		return nil, refuse("name one with --nic, or several: by alias, MAC or network", "%d of its NICs could have a VF: %s", len(fit),
			names(fit))
	}
	return fit, nil
}

// named returns the fit NICs that match a pattern.
func (e *editor) named(all, fit []*nic, pattern string) ([]*nic, error) {
	match := func(list []*nic) (out []*nic) {
		for _, n := range list {
			if n.Named(pattern) {
				out = append(out, n)
			}
		}
		return out
	}
	if found := match(fit); len(found) > 0 {
		return found, nil
	}
	if others := match(all); len(others) > 0 {
		return nil, e.unfit(others[0])
	}
	return nil, refuse("name one by alias, MAC or network", "none of its NICs matches %q: it has %s", model.Shorten(pattern), names(all))
}

func names(list []*nic) string {
	out := make([]string, len(list))
	for i, n := range list {
		if out[i] = n.name(); n.Network != "" {
			out[i] += " on " + n.Network
		}
	}
	return strings.Join(out, ", ")
}

// pair makes the NIC one half of a pair whose other half can be plugged.
func (e *editor) pair(n *nic) {
	r := e.record.of(n.MAC)
	if e.o.Bond {
		return
	}
	last := n.e.SelectElement("model")
	if t := n.e.SelectElement("teaming"); t != nil {
		last = t
	} else {
		t := etree.NewElement("teaming")
		t.CreateAttr("type", "persistent")
		domxml.AddAfter(last, t)
		last, r.teaming = t, true
		e.changed("NIC %s: <teaming type='persistent'/>, so that the guest takes a VF with its MAC as its second path", n.name())
	}
	if n.Alias == "" {
		a := etree.NewElement("alias")
		r.alias = e.freeAlias("ua-net")
		a.CreateAttr("name", r.alias)
		domxml.AddAfter(last, a)
		e.changed("NIC %s: the alias %s, through which a VF is paired with it", n.MAC, r.alias)
	}
}

// freeAlias returns the first alias with that prefix that no device has.
func (e *editor) freeAlias(prefix string) string {
	taken := map[string]bool{}
	for _, dev := range e.Devices.ChildElements() {
		taken[domxml.AliasOf(dev)] = true
	}
	for i := 0; ; i++ {
		if a := fmt.Sprintf("%s%d", prefix, i); !taken[a] {
			return a
		}
	}
}

// foreignVF rejects domains that have a VF in their definition: doctor reports that Sluice leaves such VMs alone.
func (e *editor) foreignVF() error {
	const (
		foreign = "its definition has a VF that Sluice did not attach, %s, so Sluice leaves it alone"
		remedy  = "remove it from the definition if Sluice is to decide: virsh edit"
	)
	for _, dev := range e.Devices.SelectElements("interface") {
		if dev.SelectAttrValue("type", "") == "hostdev" {
			return refuse(remedy, foreign, "<interface type='hostdev'> with MAC "+domxml.ChildAttr(dev, "mac", "address"))
		}
	}
	for _, dev := range e.Devices.SelectElements("hostdev") {
		source := dev.SelectElement("source")
		if source == nil || dev.SelectAttrValue("type", "") != "pci" {
			continue
		}
		at := hostAddress(source.SelectElement("address"))
		if teaming(dev) != "" || e.o.IsVF != nil && e.o.IsVF(at) {
			return refuse(remedy, foreign, "<hostdev> "+string(at))
		}
	}
	return nil
}

func hostAddress(a *etree.Element) model.PCIAddress {
	if a == nil {
		return ""
	}
	part := func(key string) int { n, _ := domxml.Number(a, key); return n }
	return model.PCIAddress(fmt.Sprintf("%04x:%02x:%02x.%x", part("domain"), part("bus"), part("slot"), part("function")))
}
