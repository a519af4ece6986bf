package vpfxml

import (
	"fmt"

	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/model"
)

// function is one function of a virtual PF.
type function struct {
	alias string
	mac   model.MAC
	vf    int            // -1: the PF itself
	at    domxml.Address // as libvirt is told
	props []property     // given to QEMU in addition to libvirt's, or instead of them
}

// property is a string property of a QEMU device.
type property struct{ name, value string }

// layout returns a virtual PF's functions in the order that QEMU requires: the VFs, then the PF. VF number i is function i+1 of the bus.
// libvirt supports 8 functions on a root port. Guests find further ones by ARI: in libvirt's XML these are on a bridge (park) that has room
// for them, and QEMU gets the real bus and address as properties.
func layout(p *model.VirtualPF, bus, park int) []function {
	pf := function{alias: p.PFAlias(), mac: p.MAC, vf: -1, at: domxml.Address{Bus: bus}}
	if p.Model == model.VPFIGB {
		return []function{pf}
	}
	out := make([]function, 0, len(p.VFs)+1)
	for i, v := range p.VFs {
		f := function{alias: p.VFAlias(i), mac: v.MAC, vf: i, at: domxml.Address{Bus: bus, Function: i + 1}}
		f.props = []property{{"sriov-pf", pf.alias}}
		if n := i - model.MaxFunctionVFs; n >= 0 {
			f.at = domxml.Address{Bus: park, Slot: 1 + n/8, Function: n % 8} // slot 0 of such a bridge is the bridge's own
			addr := fmt.Sprintf("0x%x.0x%x", (i+1)/8, (i+1)%8)
			f.props = append(f.props, property{"bus", portAlias(p.Name)}, property{"addr", addr})
		}
		out = append(out, f)
	}
	return append(out, pf)
}

// crowded reports whether it has more VFs than libvirt supports functions on a root port.
func crowded(p *model.VirtualPF) bool {
	return p.Model == model.VPFVirtio && len(p.VFs) > model.MaxFunctionVFs
}
