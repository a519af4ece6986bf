package sim

import "sluice/internal/model"

// Reach says which frames reach a guest through one of its NICs, and whether the guest's own frames get out. It defines what "nobody is
// ever cut off" means: on a NIC with an open VF the guest receives through the VF only, otherwise through the tap.
type Reach struct {
	Wire  bool // from the wire, through whichever PF of its network has a link
	Local bool // from another port of its bridge
	VFs   bool // from other guests' VFs; VFs of different PFs reach each other through the wire
	Out   bool // from the guest
}

// Reach returns the NIC's present Reach.
func (w *World) Reach(n *NIC) Reach {
	r := Reach{Wire: true, VFs: true, Out: w.sends(n)}
	r.Local = w.hears(n, w.bridge(n, nil))
	for _, p := range w.pfs {
		if p.Network != n.Net {
			continue
		}
		vf, self := w.filters(p, n), p.self[n.MAC] || p.kind.representors
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
			} // a frame that matches no filter goes out on the wire
			r.VFs = r.VFs && w.hears(n, at)
		}
	}
	return r
}

// arrival says where a frame arrives.
type arrival struct {
	vf, tap bool // the NIC's own
	caught  bool // a VF's filter matched
}

func (a arrival) and(b arrival) arrival {
	return arrival{vf: a.vf || b.vf, tap: a.tap || b.tap, caught: a.caught || b.caught}
}

func (w *World) hears(n *NIC, a arrival) bool { return a.vf && n.open || a.tap && !n.open }

// sends reports whether the guest's frames get out. A VF drops frames without its MAC.
func (w *World) sends(n *NIC) bool {
	p, vf, at := w.pf(n.hasVF.PF), w.vf(n.hasVF), w.fdb[n.address()]
	switch logical := w.kindOf(n.Net).logical; {
	case !n.open:
		return !n.TapDown && (!logical || at == "")
	case p == nil || vf == nil:
		return false
	case p.kind.representors:
		if at == "" && w.mirrors[mirror{vf.Port, n.MAC}] == n.tap {
			return p.passes(n, vf)
		}
		return p.reaches(n, vf) && (!logical || at == vf.Port)
	}
	return p.LinkUp && w.filters(p, n).vf
}

// filters returns which VFs of the PF receive a frame for the NIC.
func (w *World) filters(p *PF, n *NIC) (a arrival) {
	if p.kind.representors {
		return a
	}
	for i := range p.VFs {
		if vf := &p.VFs[i]; vf.MAC == n.MAC && vf.VLAN == n.VLAN {
			a.caught = true
			a.vf = a.vf || vf.ID == n.hasVF && p.LinkUp
		}
	}
	return a
}

// bridge follows a frame for the NIC that entered the bridge through from; nil: a port that is not a PF.
func (w *World) bridge(n *NIC, from *PF) arrival {
	out := func(name string, through func(*PF, *NIC, *model.VF) bool) arrival {
		switch p, vf := w.behind(name); {
		case vf != nil:
			return arrival{vf: through(p, n, vf)}
		case p != nil && p != from:
			return w.filters(p, n)
		}
		return arrival{}
	}
	port := w.fdb[n.address()]
	if port != "" && port != n.tap {
		return out(port, (*PF).reaches) // a PF, a representor, or somebody else's tap
	}
	a := arrival{tap: !n.TapDown}
	if len(w.mirrors) > 0 {
		a = a.and(out(w.mirrors[n.mirror()], (*PF).passes))
	}
	return a
}

// othersUse reports whether a guest other than the NIC's uses a VF of the PF.
func (w *World) othersUse(p *PF, n *NIC) bool {
	for o := range w.nics() {
		if o.VM != n.VM && o.open && o.hasVF.PF == p.Name {
			return true
		}
	}
	return false
}

// listens reports whether the guest can receive at all. A VM that migrates away runs here until the end.
func (v *VM) listens() bool {
	return (v.State == model.VMRunning || v.State == model.VMMigrating) && !v.booting && !v.gone
}
