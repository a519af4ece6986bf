package sim

import "sluice/internal/model"

// Give gives the first NIC of a VM a VF from the start, as an earlier run of the daemon would have left it: with its MAC, its bridge
// entry, and the PF's filters for all others. It reports whether it could.
func (w *World) Give(v *VM, id model.VFID) bool {
	p, vf, n := w.pf(id.PF), w.vf(id), v.NICs[0]
	if vf == nil || n.hasVF != model.NoVF || w.holder(id) != nil {
		return false
	}
	n.hasVF, n.open = id, true
	n.newCounters()
	vf.MAC, vf.VLAN, vf.Driver = n.MAC, n.VLAN, "vfio-pci"
	if p.kind.representors {
		vf.VLAN, p.joined[vf.Port], w.fdb[n.address()] = 0, n.Net, vf.Port
		return true
	}
	w.fdb[n.address()] = p.Name
	delete(p.self, n.MAC)
	for o := range w.nics() {
		if o.Net == p.Network && o.hasVF == model.NoVF {
			p.self[o.MAC] = true
		}
	}
	return true
}
