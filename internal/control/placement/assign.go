package placement

import (
	"cmp"
	"slices"

	"sluice/internal/model"
)

// assign gives each winner a VF: holders keep theirs; others get one on the VM's NUMA node if possible, and preferably one that
// is already free rather than still held.
func (w *workspace) assign(snap *model.Snapshot, t *model.Target) []model.Assignment {
	out := t.Assign
	out = append(out, w.stays...)
	for i := range w.pools {
		p := &w.pools[i]
		p.winners = slices.DeleteFunc(p.winners, func(e entry) bool { return e.out >= 0 && !e.reason(t).Hold }) // the VM has no port left
		for _, e := range p.winners {
			if s := p.find(e.has); s != nil {
				s.taken = true
				out = append(out, model.Assignment{VM: snap.VMs[e.vm].ID, NIC: e.nic.Alias, VF: e.has})
			}
		}
		for _, e := range p.winners {
			if p.find(e.has) != nil {
				continue
			}
			if s := p.best(snap.VMs[e.vm].NUMANode); s != nil {
				s.taken = true
				out = append(out, model.Assignment{VM: snap.VMs[e.vm].ID, NIC: e.nic.Alias, VF: s.vf})
			}
		}
	}
	slices.SortFunc(out, func(a, b model.Assignment) int {
		return cmp.Or(cmp.Compare(a.VM, b.VM), cmp.Compare(a.NIC, b.NIC))
	})
	return out
}

// best is the slot that suits a VM on that NUMA node best: the node counts first, then whether the slot is free.
func (p *pool) best(numa int) *slot {
	var best *slot
	rank := -1
	for i := range p.vfs {
		s := &p.vfs[i]
		if s.taken {
			continue
		}
		r := 0
		if numa >= 0 && s.numa == numa {
			r += 2
		}
		if !s.held {
			r++
		}
		if r > rank {
			best, rank = s, r
		}
	}
	return best
}
