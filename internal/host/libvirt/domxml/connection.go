package domxml

import (
	"cmp"
	"fmt"

	"github.com/beevik/etree"
)

// Connection is how an <interface> of type TapType connects its tap to a switch.
type Connection struct {
	Switch      string // its name
	VirtualPort string // the type of <virtualport>, which libvirt needs for any switch but a Linux bridge; "": none
}

// TapType is the type of an <interface> whose tap libvirt connects to a switch, which its XML calls a bridge whatever its kind.
const TapType = "bridge"

// Add adds the connection to an <interface> of type TapType.
func (c Connection) Add(iface *etree.Element) {
	Child(iface, "source", "bridge", c.Switch)
	if c.VirtualPort != "" {
		Child(iface, "virtualport", "type", c.VirtualPort)
	}
}

// String describes such an <interface> to a user.
func (c Connection) String() string {
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
