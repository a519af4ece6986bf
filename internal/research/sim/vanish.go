package sim

import (
	"maps"

	"sluice/internal/model"
)

// deadPort stands for a port that no longer exists: what was sent or copied to it is lost, also when another gets its name.
const deadPort = "gone"

// Vanish takes all VFs of a PF away, also those in guests, and their representors with them, as a write of 0 to sriov_numvfs does. The
// guests fall back to virtio. A Linux bridge drops the entries of a port that is deleted; OVN keeps the name of the interface that has
// the logical port.
func (w *World) Vanish(p *PF) {
	for i := range p.VFs {
		if port := p.VFs[i].Port; port != "" {
			w.movePort(p, port, deadPort)
		}
	}
	maps.DeleteFunc(w.fdb, func(_ address, to string) bool { return to == deadPort })
	p.SetNumVFs(0)
	for n := range w.nics() {
		if n.hasVF.PF == p.Name {
			if !n.VM.booting { // else it would never be up
				n.cancel()
			}
			n.hasVF, n.open, n.asked, n.foreign = model.NoVF, false, false, false
			n.changed()
		}
	}
}

// RenamePort gives the representor of a VF another name, and sets it down or leaves it up. It stays a port of a Linux bridge, but none of
// OVN's, which knows its ports by name.
func (w *World) RenamePort(p *PF, i int, name string, down bool) {
	vf := &p.VFs[i]
	old := vf.Port
	if !w.kindOf(p.Network).logical {
		p.joined[name] = p.joined[old]
	}
	delete(p.joined, old)
	w.movePort(p, old, name)
	vf.Port, vf.PortDown = name, down
}

// movePort changes the name of a port in what knows it by number: copies, and the entries of a Linux bridge.
func (w *World) movePort(p *PF, old, name string) {
	for at, to := range w.fdb {
		if to == old && !w.kindOf(p.Network).logical {
			w.fdb[at] = name
		}
	}
	for m, to := range maps.Clone(w.mirrors) {
		delete(w.mirrors, m)
		if m.tap == old {
			m.tap = name
		}
		if to == old {
			to = name
		}
		w.mirrors[m] = to
	}
}
