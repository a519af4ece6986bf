package sim

import (
	"maps"

	"sluice/internal/model"
)

// deadPort stands for a port that no longer exists: what was sent or copied to it is lost, also when another gets its name.
const deadPort = "gone"

// Vanish takes all VFs of a PF away, also those in guests, and their representors with them, as a write of 0 to sriov_numvfs does. The
// guests fall back to virtio.
func (w *World) Vanish(p *PF) {
	for i := range p.VFs {
		w.lose(p, i)
	}
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

// LosePort takes the representor of a VF out of its switch, with what the switch would send there.
func (w *World) LosePort(p *PF, i int) {
	port := p.VFs[i].Port
	delete(p.joined, port)
	maps.DeleteFunc(w.fdb, func(_ address, to string) bool { return to == port })
}

// RemakeSwitch deletes the switch of a network and makes it again with its taps and PFs, as somebody does who knows nothing of Sluice.
// Programs at taps stay.
func (w *World) RemakeSwitch(network string) {
	for _, p := range w.pfs {
		if p.Network == network {
			clear(p.joined)
		}
	}
	if !w.kindOf(network).program {
		maps.DeleteFunc(w.fdb, func(at address, _ string) bool { return at.network == network })
	}
}

// LoseRepresentor takes the representor of a VF out of Sluice's reach, as its move into another network namespace does; what is returned
// brings it back, set down.
func (w *World) LoseRepresentor(p *PF, i int) (back func()) {
	port := p.VFs[i].Port
	w.lose(p, i)
	p.VFs[i].NoPort = "it has no representor in this network namespace"
	return func() {
		if i < len(p.VFs) && p.VFs[i].Port == "" {
			p.VFs[i].Port, p.VFs[i].NoPort, p.VFs[i].PortDown = port, "", true
		}
	}
}

// lose takes the representor of a VF away, if it has one. A Linux bridge drops the entries of a port that is deleted; OVN keeps the name of
// the interface that has the logical port.
func (w *World) lose(p *PF, i int) {
	port := p.VFs[i].Port
	if port == "" {
		return
	}
	w.movePort(p, port, deadPort)
	maps.DeleteFunc(w.fdb, func(_ address, to string) bool { return to == deadPort })
	delete(p.joined, port)
	p.VFs[i].Port = ""
}

// StopSwitch stops the database of OVN's switch in a network, or starts it again. What is set up goes on, but no port can be changed.
func (w *World) StopSwitch(network string, stopped bool) {
	for _, p := range w.pfs {
		if p.Network == network {
			p.stopped = stopped
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
