package loop

import (
	"maps"
	"time"

	"sluice/internal/model"
)

// carried sums up what each path of each NIC has carried, from the rates of the Snapshots and the time between them: the one figure of a
// NIC that survives moves between paths, new taps and counters that begin again. Time in which a rate is not known adds nothing.
type carried struct {
	last time.Time
	sums map[model.NICID]*[2]model.Carried // on virtio and on VFs
}

// count adds the time since the last Snapshot, and writes the sums into this one.
func (c *carried) count(snap *model.Snapshot) {
	dt := 0.0
	if !c.last.IsZero() {
		dt = max(0, snap.Time.Sub(c.last).Seconds())
	}
	c.last = snap.Time
	if c.sums == nil {
		c.sums = make(map[model.NICID]*[2]model.Carried)
	}
	for i := range snap.VMs {
		vm := &snap.VMs[i]
		for k := range vm.NICs {
			nic := &vm.NICs[k]
			id := model.NICID{VM: vm.ID, NIC: nic.Alias}
			sum := c.sums[id]
			if sum == nil {
				sum = new([2]model.Carried)
				c.sums[id] = sum
			}
			for p, t := range [2]*model.Traffic{&nic.Virtio, &nic.VFPath} {
				sum[p].Add(t, dt)
				t.Carried = sum[p]
			}
		}
	}
}

// forget drops the sums of VMs that are gone; if such a VM returns, its sums begin at 0, as the counters of a new device do.
func (c *carried) forget(gone func(model.VMID) bool) {
	maps.DeleteFunc(c.sums, func(id model.NICID, _ *[2]model.Carried) bool { return gone(id.VM) })
}
