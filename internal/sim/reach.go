package sim

import "sluice/internal/model"

// Reach says which frames get through to a VM's guest and out of it, now. It is what
// "nobody is ever cut off" means: a guest with an open VF hears that alone, any other its
// tap.
type Reach struct {
	Wire  bool // from the wire, through whichever PF of its network has a link
	Local bool // from another port of its bridge
	VFs   bool // from other guests' VFs; those of one PF reach VFs of another through the wire
	Out   bool // from the guest
}

// Reach says how the VM is reached.
func (w *World) Reach(v *VM) Reach {
	r := Reach{Wire: true, VFs: true, Out: w.sends(v)}
	r.Local = w.hears(v, w.bridge(v, nil))
	for _, p := range w.pfs {
		if p.Network != v.Net {
			continue
		}
		vf, self := w.filters(p, v), p.self[v.MAC]
		if p.LinkUp {
			at := vf
			if !vf.caught || self {
				at = at.and(w.bridge(v, p))
			}
			r.Wire = r.Wire && w.hears(v, at)
		}
		if elsewhere := v.open && v.hasVF.PF != p.Name; !elsewhere && w.othersUse(p, v) {
			at := vf
			if self {
				at = at.and(w.bridge(v, p))
			} // what no filter takes goes out on the wire
			r.VFs = r.VFs && w.hears(v, at)
		}
	}
	return r
}

// arrival is where a frame gets.
type arrival struct {
	vf, tap bool // the VM's own
	caught  bool // a VF's filter took it
}

func (a arrival) and(b arrival) arrival {
	return arrival{vf: a.vf || b.vf, tap: a.tap || b.tap, caught: a.caught || b.caught}
}

func (w *World) hears(v *VM, a arrival) bool { return a.vf && v.open || a.tap && !v.open }

// sends says whether what the guest sends gets out: the VF drops what has not its MAC.
func (w *World) sends(v *VM) bool {
	if !v.open {
		return !v.TapDown
	}
	p := w.pf(v.hasVF.PF)
	return p != nil && p.LinkUp && w.filters(p, v).vf
}

// filters says which VFs of the PF take a frame for the VM.
func (w *World) filters(p *PF, v *VM) (a arrival) {
	for i := range p.VFs {
		if vf := &p.VFs[i]; vf.MAC == v.MAC && vf.VLAN == v.VLAN {
			a.caught = true
			a.vf = a.vf || vf.ID == v.hasVF && p.LinkUp
		}
	}
	return a
}

// bridge follows a frame for the VM that came into the bridge through from, nil for a
// port that is no PF.
func (w *World) bridge(v *VM, from *PF) arrival {
	out := func(name string) arrival {
		if p := w.pf(name); p != nil && p != from {
			return w.filters(p, v)
		}
		return arrival{}
	}
	port := w.fdb[v.address()]
	if port != "" && port != tap(v) {
		return out(port) // a PF, or somebody else's tap
	}
	a := arrival{tap: !v.TapDown}
	if len(w.mirrors) > 0 {
		a = a.and(out(w.mirrors[v.mirror()]))
	}
	return a
}

// othersUse says whether a guest other than the VM's uses a VF of the PF.
func (w *World) othersUse(p *PF, v *VM) bool {
	for _, o := range w.vms {
		if o != v && o.open && o.hasVF.PF == p.Name {
			return true
		}
	}
	return false
}

// listens says whether the VM's guest would hear a frame at all.
func (v *VM) listens() bool { return v.State == model.VMRunning && !v.booting && !v.gone }
