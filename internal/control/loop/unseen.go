package loop

import (
	"slices"
	"time"

	"sluice/internal/model"
)

// unseen is what ended Moves left true that the Snapshot at hand, which is older, does not show. It is not a reconcile.Table: nothing
// in it is tried again, and a Move leaves several things true, of its VM, its NIC and its VF.
type unseen struct {
	moves map[model.VMID][]endedMove
	freed map[model.VFID]time.Time // VFs that an unplug freed
}

// endedMove is what an ended Move left true.
type endedMove struct {
	nic   string
	known bool       // it is known which VF the NIC has now
	vf    model.VFID // NoVF after an unplug
	used  model.VFID // the VF that it set up or cleared
	at    time.Time

	network string // whose bridge it told where to send the MAC
	mac     model.MAC
}

// vm says whether a Move of the VM ended.
func (u *unseen) vm(id model.VMID) bool { return len(u.moves[id]) > 0 }

// nic says whether a Move of the NIC ended.
func (u *unseen) nic(id model.NICID) bool {
	return slices.ContainsFunc(u.moves[id.VM], func(d endedMove) bool { return d.nic == id.NIC })
}

// used says whether a Move that ended had the VF.
func (u *unseen) used(vf model.VFID) bool {
	if vf == model.NoVF {
		return false
	}
	for _, moves := range u.moves {
		if slices.ContainsFunc(moves, func(d endedMove) bool { return d.used == vf }) {
			return true
		}
	}
	return false
}

// isFreed says whether an unplug freed the VF.
func (u *unseen) isFreed(vf model.VFID) bool {
	_, ok := u.freed[vf]
	return ok
}

// drop forgets what a Snapshot that was read from then on shows by itself; shown is told of each Move.
func (u *unseen) drop(read time.Time, shown func(endedMove)) {
	for vm, moves := range u.moves {
		shows := func(d endedMove) bool { return read.After(d.at) }
		for _, d := range moves {
			if shows(d) {
				shown(d)
			}
		}
		if u.moves[vm] = slices.DeleteFunc(moves, shows); len(u.moves[vm]) == 0 {
			delete(u.moves, vm)
		}
	}
	for vf, at := range u.freed {
		if read.After(at) {
			delete(u.freed, vf)
		}
	}
}
