package sim

import "sluice/internal/model"

// Reach says which frames get through to a guest by one of its NICs and out of it, now. It
// is what "nobody is ever cut off" means: by a NIC with an open VF the guest hears that
// alone, by any other its tap.
type Reach struct {
	Wire  bool // from the wire, through whichever PF of its network has a link
	Local bool // from another port of its bridge
	VFs   bool // from other guests' VFs; those of one PF reach VFs of another through the wire
	Out   bool // from the guest
}

// Reach says how the NIC is reached.
func (w *World) Reach(n *NIC) Reach {
	r := Reach{Wire: true, VFs: true, Out: w.sends(n)}
	r.Local = w.hears(n, w.bridge(n, nil))
	for _, p := range w.pfs {
		if p.Network != n.Net {
			continue
		}
		vf, self := w.filters(p, n), p.self[n.MAC]
		if p.LinkUp {
			at := vf
			if !vf.caught || self {
				at = at.and(w.bridge(n, p))
			}
			r.Wire = r.Wire && w.hears(n, at)
		}
		if elsewhere := n.open && n.hasVF.PF != p.Name; !elsewhere && w.othersUse(p, n) {
			at := vf
			if self {
				at = at.and(w.bridge(n, p))
			} // what no filter takes goes out on the wire
			r.VFs = r.VFs && w.hears(n, at)
		}
	}
	return r
}

// arrival is where a frame gets.
type arrival struct {
	vf, tap bool // the NIC's own
	caught  bool // a VF's filter took it
}

func (a arrival) and(b arrival) arrival {
	return arrival{vf: a.vf || b.vf, tap: a.tap || b.tap, caught: a.caught || b.caught}
}

func (w *World) hears(n *NIC, a arrival) bool { return a.vf && n.open || a.tap && !n.open }

// sends says whether what the guest sends gets out: the VF drops what has not its MAC.
func (w *World) sends(n *NIC) bool {
	if !n.open {
		return !n.TapDown
	}
	p := w.pf(n.hasVF.PF)
	return p != nil && p.LinkUp && w.filters(p, n).vf
}

// filters says which VFs of the PF take a frame for the NIC.
func (w *World) filters(p *PF, n *NIC) (a arrival) {
	for i := range p.VFs {
		if vf := &p.VFs[i]; vf.MAC == n.MAC && vf.VLAN == n.VLAN {
			a.caught = true
			a.vf = a.vf || vf.ID == n.hasVF && p.LinkUp
		}
	}
	return a
}

// bridge follows a frame for the NIC that came into the bridge through from, nil for a
// port that is no PF.
func (w *World) bridge(n *NIC, from *PF) arrival {
	out := func(name string) arrival {
		if p := w.pf(name); p != nil && p != from {
			return w.filters(p, n)
		}
		return arrival{}
	}
	port := w.fdb[n.address()]
	if port != "" && port != n.tap {
		return out(port) // a PF, or somebody else's tap
	}
	a := arrival{tap: !n.TapDown}
	if len(w.mirrors) > 0 {
		a = a.and(out(w.mirrors[n.mirror()]))
	}
	return a
}

// othersUse says whether another guest than the NIC's uses a VF of the PF.
func (w *World) othersUse(p *PF, n *NIC) bool {
	for o := range w.nics() {
		if o.VM != n.VM && o.open && o.hasVF.PF == p.Name {
			return true
		}
	}
	return false
}

// listens says whether the VM's guest would hear a frame at all. One that migrates away runs here until the end.
func (v *VM) listens() bool {
	return (v.State == model.VMRunning || v.State == model.VMMigrating) && !v.booting && !v.gone
}
