// Package plan turns the difference between what is (a Snapshot) and what should be
// (a Target) into Moves of ordered Steps, says how to undo one that failed half way,
// and finds what was left behind. It is pure: it reads no world and no clock.
package plan

import (
	"time"

	"sluice/internal/model"
)

// Timeouts are the deadlines of Steps, each try anew, by what they wait for.
type Timeouts struct {
	Kernel time.Duration // a netlink or sysfs change
	Attach time.Duration // libvirt's attach call
	Guest  time.Duration // until the guest's driver has opened a new VF
	Detach time.Duration // libvirt's detach call, and then until the device is gone
}

// DefaultTimeouts suit real hardware with room for a busy host.
var DefaultTimeouts = Timeouts{
	Kernel: 5 * time.Second,
	Attach: model.DefaultPlugTimeout,
	Guest:  model.DefaultPlugTimeout,
	Detach: model.DefaultUnplugTimeout,
}

// Busy says which VMs have a move under way, which Diff leaves alone, and which NICs are
// moved or repaired, which Check leaves alone.
type Busy interface {
	VM(model.VMID) bool
	NIC(model.NICID) bool
}

// Diff lists the Moves that make the Snapshot what the Target says: all unplugs, then
// all plugs, each in order of VM and NIC. A plug may name a VF that another NIC's unplug
// must free first. A VM with several NICs may get several Moves; they go one after the
// other. Nothing to do gives nil. Limits are no Moves: they are
// the bandwidth controller's, and a plug carries its rate from the start.
func Diff(snap *model.Snapshot, target *model.Target, busy Busy, to Timeouts) []model.Move {
	var unplugs, plugs []model.Move
	wants := target.Assign
	for i := range snap.VMs {
		vm := &snap.VMs[i]
		var want []model.Assignment
		want, wants = assignmentsOf(wants, vm.ID)
		if (len(want) == 0 && vm.Held() == nil) || busy.VM(vm.ID) {
			continue
		}
		for j := range vm.NICs {
			nic := &vm.NICs[j]
			has, a := nic.Ours(), assignmentOf(want, nic.Alias)
			if nic.VF != has || (a == nil && has == model.NoVF) || (a != nil && a.VF == has) {
				continue // somebody else's, or nothing to do
			}
			why := target.NIC(i, nic.Alias)
			if has != model.NoVF {
				unplugs = append(unplugs, Unplug(snap, vm, nic, why, to))
			}
			if a == nil {
				continue
			}
			if m, ok := Plug(snap, vm, a, rateOf(target, a), why, to); ok {
				plugs = append(plugs, m)
			}
		}
	}
	return append(unplugs, plugs...)
}

// assignmentsOf cuts a VM's assignments off the front of sorted ones.
func assignmentsOf(all []model.Assignment, id model.VMID) (own, rest []model.Assignment) {
	for len(all) > 0 && all[0].VM < id {
		all = all[1:]
	}
	n := 0
	for n < len(all) && all[n].VM == id {
		n++
	}
	return all[:n], all[n:]
}

func assignmentOf(own []model.Assignment, alias string) *model.Assignment {
	for i := range own {
		if own[i].NIC == alias {
			return &own[i]
		}
	}
	return nil
}
