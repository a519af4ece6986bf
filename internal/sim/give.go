package sim

import "sluice/internal/model"

// Give makes a VM hold a VF from the start, as an earlier run of the daemon would have
// left it: with its MAC, its bridge entry and the PF's filters for everyone else.
func (w *World) Give(v *VM, id model.VFID) bool {
	p, vf := w.pf(id.PF), w.vf(id)
	if vf == nil || v.hasVF != model.NoVF {
		return false
	}
	for _, o := range w.vms {
		if o.hasVF == id {
			return false
		}
	}
	v.hasVF, v.open = id, true
	vf.MAC, vf.VLAN, vf.Driver = v.MAC, v.VLAN, "vfio-pci"
	w.fdb[v.address()] = p.Name
	delete(p.self, v.MAC)
	for _, o := range w.vms {
		if o.Net == p.Network && o.hasVF == model.NoVF {
			p.self[o.MAC] = true
		}
	}
	return true
}
