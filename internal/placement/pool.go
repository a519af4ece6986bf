package placement

import (
	"cmp"
	"slices"
	"strings"

	"sluice/internal/model"
)

// entry is a VM's place in a pool.
type entry struct {
	vm   int // index into the Snapshot
	nic  *model.NIC
	rule *model.VMRule
	has  model.VFID // the VF it has or is about to have
	rate uint64     // bits/s that the policy lets its VF send; 0: no limit
}

// slot is a usable VF.
type slot struct {
	vf    model.VFID
	numa  int
	taken bool // somebody keeps or was given it
	held  bool // somebody has it now, even if that VM is about to lose it
}

// pool is what one network has to share and who competes for it.
type pool struct {
	network string
	vfs     []slot
	down    bool // a PF of it has no link
	fixed   int  // VFs with VMs that must be left as they are
	pinned  []entry
	open    []entry
	winners []entry
}

func (p *pool) whyEmpty() string {
	if p.down {
		return "the link of network " + p.network + "'s PF is down"
	}
	return "network " + p.network + " has no PF with VFs in Sluice's pool; list one under pfs: in sluice.yaml"
}

func (p *pool) whyFull() string {
	if len(p.vfs) == 0 {
		return p.whyEmpty()
	}
	return "every VF of network " + p.network + " is taken by other pinned or fixed VMs"
}

// workspace is scratch memory, reused from tick to tick.
type workspace struct {
	pools      []pool
	stays      []model.Assignment // by VMs that are left as they are
	cands      []Candidate
	reasons    []model.Reason
	lastAssign []model.Assignment
}

func (w *workspace) reset() {
	for i := range w.pools {
		p := &w.pools[i]
		*p = pool{network: p.network, vfs: p.vfs[:0], pinned: p.pinned[:0], open: p.open[:0], winners: p.winners[:0]}
	}
	w.stays = w.stays[:0]
}

// pool finds or makes the pool of a network. There are few, so a scan will do.
func (w *workspace) pool(network string) *pool {
	for i := range w.pools {
		if w.pools[i].network == network {
			return &w.pools[i]
		}
	}
	w.pools = append(w.pools, pool{network: network})
	return &w.pools[len(w.pools)-1]
}

// place puts a judged VM into its pool.
func (w *workspace) place(e entry, why model.Reason, vm *model.VM) {
	p, s := w.slotOf(e.has)
	if s != nil {
		s.held = true
	}
	switch {
	case why.Code == model.CodeForeign || (why.Code != "" && !why.Hold):
		return
	case why.Code != "": // it keeps what it has
		w.stays = append(w.stays, model.Assignment{VM: vm.ID, NIC: aliasOf(e.nic), VF: e.has})
		if s != nil {
			s.taken = true
			p.fixed++
		}
		return
	}
	p = w.pool(e.nic.Network)
	if e.rule.Pin {
		p.pinned = append(p.pinned, e)
	} else {
		p.open = append(p.open, e)
	}
}

// slotOf finds the pool and slot of a VF; nil when it is in none.
func (w *workspace) slotOf(id model.VFID) (*pool, *slot) {
	if id == model.NoVF {
		return nil, nil
	}
	for i := range w.pools {
		if s := w.pools[i].find(id); s != nil {
			return &w.pools[i], s
		}
	}
	return nil, nil
}

func aliasOf(n *model.NIC) string {
	if n == nil {
		return ""
	}
	return n.Alias
}

func (p *pool) find(id model.VFID) *slot {
	if id == model.NoVF {
		return nil
	}
	// With one PF and no VF missing, each is at its index.
	if i := id.Index; i >= 0 && i < len(p.vfs) && p.vfs[i].vf == id {
		return &p.vfs[i]
	}
	// The Snapshot's order makes the slots sorted.
	i, ok := slices.BinarySearchFunc(p.vfs, id, func(s slot, id model.VFID) int {
		return cmp.Or(strings.Compare(s.vf.PF, id.PF), cmp.Compare(s.vf.Index, id.Index))
	})
	if !ok {
		return nil
	}
	return &p.vfs[i]
}
