package domxml

import (
	"cmp"
	"fmt"

	"github.com/beevik/etree"

	"sluice/internal/model"
)

// TapType is the type of an <interface> whose tap libvirt connects to a switch, which its XML calls a bridge whatever its kind.
const TapType = "bridge"

// Connect adds a connection to an <interface> of type TapType.
func Connect(iface *etree.Element, c model.TapConnection) {
	Child(iface, "source", "bridge", c.Switch)
	if c.VirtualPort != "" {
		Child(iface, "virtualport", "type", c.VirtualPort)
	}
}

// Describe describes an <interface> with that connection to a user.
func Describe(c model.TapConnection) string {
	text := fmt.Sprintf("<interface type='%s'> with <source bridge='%s'/>", TapType, c.Switch)
	if c.VirtualPort != "" {
		text += fmt.Sprintf(" and <virtualport type='%s'/>", c.VirtualPort)
	}
	return text
}

// SwitchOf returns the switch that libvirt connects an <interface>'s tap to, "" if the XML does not name it; networks maps libvirt's
// networks to their switches. false: an interface of this type has no tap on a switch.
func SwitchOf(iface *etree.Element, networks map[string]string) (string, bool) {
	switch iface.SelectAttrValue("type", "") {
	case TapType:
		return ChildAttr(iface, "source", "bridge"), true
	case "network": // the XML of a running VM names the switch too
		return cmp.Or(ChildAttr(iface, "source", "bridge"), networks[ChildAttr(iface, "source", "network")]), true
	}
	return "", false
}
