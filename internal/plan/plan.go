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

// DefaultTimeouts suit real hardware (the paper's plug takes 0.64 s, a native PCIe
// unplug 6 s) with room for a busy host.
var DefaultTimeouts = Timeouts{
	Kernel: 5 * time.Second,
	Attach: 10 * time.Second,
	Guest:  20 * time.Second,
	Detach: 20 * time.Second,
}

// Busy says which VMs have a move under way; Diff leaves them alone.
type Busy interface {
	VM(model.VMID) bool
}

// Diff lists the Moves that make the Snapshot what the Target says: all unplugs, then
// all plugs, each in order of VM. A plug may name a VF that another VM's unplug must
// free first. Nothing to do gives nil. Limits are no Moves; see Limits.
func Diff(snap *model.Snapshot, target *model.Target, busy Busy, to Timeouts) []model.Move {
	var unplugs, plugs []model.Move
	next := 0
	for i := range snap.VMs {
		vm := &snap.VMs[i]
		want := assignmentOf(target, vm.ID, &next)
		nic, why := vm.Ours(), &target.Reasons[i]
		if (nic == nil && want == nil) || busy.VM(vm.ID) || why.Code == model.CodeForeign {
			continue
		}
		if nic != nil && (want == nil || want.VF != nic.VF || want.NIC != nic.Alias) {
			unplugs = append(unplugs, Unplug(snap, vm, nic, why, to))
		}
		if want != nil && (nic == nil || want.VF != nic.VF || want.NIC != nic.Alias) {
			if m, ok := Plug(snap, vm, want, rateOf(target, want), why, to); ok {
				plugs = append(plugs, m)
			}
		}
	}
	return append(unplugs, plugs...)
}

// assignmentOf walks the sorted assignments beside the sorted VMs.
func assignmentOf(t *model.Target, id model.VMID, next *int) *model.Assignment {
	for *next < len(t.Assign) && t.Assign[*next].VM < id {
		*next++
	}
	if *next < len(t.Assign) && t.Assign[*next].VM == id {
		return &t.Assign[*next]
	}
	return nil
}
