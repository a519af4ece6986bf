package placement

import (
	"slices"
	"strings"

	"sluice/internal/model"
)

// assign gives each winner a VF: holders keep theirs; others get one on the VM's NUMA
// node if there is one, and one that is free already rather than one still held.
func (w *workspace) assign(snap *model.Snapshot, t *model.Target) []model.Assignment {
	out := t.Assign
	out = append(out, w.stays...)
	for i := range w.pools {
		p := &w.pools[i]
		p.winners = slices.DeleteFunc(p.winners, func(e entry) bool { return e.out >= 0 && !e.reason(t).Hold }) // its VM has no port left
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
		if a.VM != b.VM {
			return strings.Compare(string(a.VM), string(b.VM))
		}
		return strings.Compare(a.NIC, b.NIC)
	})
	return out
}

// limits turns what policies let their VFs send into Limits. A VM that is left as it is
// keeps the one that it was given; what its VF is set to may be another's doing.
func (w *workspace) limits(snap *model.Snapshot) []model.Limit {
	var out []model.Limit
	add := func(vm model.VMID, nic string, bits uint64) {
		if bits > 0 {
			out = append(out, model.Limit{LimitKey: model.LimitKey{VM: vm, NIC: nic, Path: model.PathVF, Dir: model.Tx}, Rate: model.Rate{Bits: bits}})
		}
	}
	for _, a := range w.stays {
		i, known := slices.BinarySearchFunc(w.lastLimits, model.LimitKey{VM: a.VM, NIC: a.NIC, Path: model.PathVF, Dir: model.Tx},
			func(l model.Limit, k model.LimitKey) int { return model.CompareKeys(l.LimitKey, k) })
		if known {
			add(a.VM, a.NIC, w.lastLimits[i].Bits)
		}
	}
	for i := range w.pools {
		for _, e := range w.pools[i].winners {
			add(snap.VMs[e.vm].ID, e.nic.Alias, e.rate)
		}
	}
	slices.SortFunc(out, func(a, b model.Limit) int { return model.CompareKeys(a.LimitKey, b.LimitKey) })
	return out
}

// best is the slot that suits a VM of that NUMA node: first the node, then free ones.
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
