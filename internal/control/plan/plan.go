// Package plan turns the difference between the actual state (a Snapshot) and the desired state (a Target) into Moves of ordered
// Steps, lists how to undo a Move that failed half way, and finds stale state that was left behind. It is pure: it does no I/O
// and has no clock.
package plan

import (
	"slices"
	"time"

	"sluice/internal/model"
)

// Timeouts are the deadlines of Steps, by what they wait for. Each retry gets the full timeout.
type Timeouts struct {
	Kernel time.Duration // a netlink or sysfs change
	Attach time.Duration // libvirt's attach call
	Guest  time.Duration // until the guest's driver has opened a new VF
	Detach time.Duration // libvirt's detach call, and then again until the device is gone
}

// DefaultTimeouts suit real hardware, with margin for a busy host.
var DefaultTimeouts = Timeouts{
	Kernel: 5 * time.Second,
	Attach: model.DefaultPlugTimeout,
	Guest:  model.DefaultPlugTimeout,
	Detach: model.DefaultUnplugTimeout,
}

// Busy reports which VMs have a move under way (Diff skips them) and which NICs are being moved or repaired (Check skips them).
type Busy interface {
	VM(model.VMID) bool
	NIC(model.NICID) bool
}

// Diff lists the Moves that bring the Snapshot to the Target: all unplugs, then all plugs, each sorted by VM and NIC. A plug may
// name a VF that another NIC's unplug must free first. A VM with several NICs may get several Moves, which run one after the
// other. The result is nil if nothing is to be done. Limits are not Moves: the bandwidth controller sets them, and a plug carries
// its rate from the start.
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
				continue // not ours, or nothing to do
			}
			why := target.NIC(i, nic.Alias)
			if has != model.NoVF {
				unplugs = append(unplugs, Unplug(snap, vm, nic, why, to))
			}
			if a == nil {
				continue
			}
			if m, ok := Plug(snap, vm, a, model.Rate{Bits: model.VFRate(target.Limits, model.NICID{VM: a.VM, NIC: a.NIC})}, why, to); ok {
				plugs = append(plugs, m)
			}
		}
	}
	unplugs = append(unplugs, plugs...)
	for i := range unplugs {
		unplugs[i].Cause = causeOf(snap, target, &unplugs[i])
	}
	return unplugs
}

// assignmentsOf cuts a VM's assignments off the front of all, which is sorted by VM.
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
	i := slices.IndexFunc(own, func(a model.Assignment) bool { return a.NIC == alias })
	if i < 0 {
		return nil
	}
	return &own[i]
}
