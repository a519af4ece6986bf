package loop

import (
	"maps"
	"slices"
	"time"

	"sluice/internal/model"
)

// unseen is the state that ended Moves left and that the current Snapshot, being older, does not show. It is not a
// reconcile.Table: nothing in it is retried, and a Move leaves several pieces of state, of its VM, its NIC and its VF.
type unseen struct {
	moves map[model.VMID][]endedMove
	freed map[model.VFID]time.Time // VFs that an unplug freed
}

// endedMove is the state that an ended Move left.
type endedMove struct {
	nic   string
	known bool       // whether vf is the VF that the NIC has now
	vf    model.VFID // NoVF after an unplug
	used  model.VFID // the VF that the Move set up or cleared
	at    time.Time

	network string // whose bridge was told where to send the MAC
	mac     model.MAC
}

// vm reports whether a Move of the VM ended.
func (u *unseen) vm(id model.VMID) bool { return len(u.moves[id]) > 0 }

// nic reports whether a Move of the NIC ended.
func (u *unseen) nic(id model.NICID) bool {
	return slices.ContainsFunc(u.moves[id.VM], func(d endedMove) bool { return d.nic == id.NIC })
}

// used reports whether a Move that ended used the VF.
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

// isFreed reports whether an unplug freed the VF.
func (u *unseen) isFreed(vf model.VFID) bool {
	_, ok := u.freed[vf]
	return ok
}

// drop forgets what a Snapshot read at that time shows by itself, and calls shown with each such Move.
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
	maps.DeleteFunc(u.freed, func(_ model.VFID, at time.Time) bool { return read.After(at) })
}
