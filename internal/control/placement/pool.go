package placement

import (
	"slices"

	"sluice/internal/model"
)

// entry is one NIC in a pool.
type entry struct {
	vm    int // index into the Snapshot
	out   int // index into the Target's NICs; -1: its Reason is the VM's
	nic   *model.NIC
	rule  *model.VMRule
	has   model.VFID // the VF it has or is about to get
	needs string     // why its SLA requires a VF; "": it does not
}

// nicName is how a Reason names the NIC: "" if the VM has no other.
func (e *entry) nicName(vm *model.VM) string {
	if e.nic == nil || len(vm.NICs) < 2 {
		return ""
	}
	return e.nic.Alias
}

// reason is where the decision on the entry is written.
func (e *entry) reason(t *model.Target) *model.Reason {
	if e.out < 0 {
		return &t.Reasons[e.vm]
	}
	return &t.NICs[e.out]
}

// slot is a usable VF.
type slot struct {
	vf    model.VFID
	numa  int
	taken bool // kept by its holder or already assigned
	held  bool // in use now, even if the VM is about to lose it
}

// pool holds the VFs of one network and the NICs that compete for them.
type pool struct {
	network string
	vfs     []slot
	serves  bool    // a PF of the network has VFs, even if none is available to us
	why     string  // why the VFs of one of its PFs cannot be used now
	fixed   int     // VFs of VMs that must be left unchanged
	pinned  []entry // pinned NICs and those whose SLA requires a VF
	open    []entry
	winners []entry
}

func (p *pool) whyEmpty() string {
	if p.why != "" {
		return "no VF of network " + p.network + " can be used now: " + p.why
	}
	return whyNoPF(p.network)
}

// whyDown explains why no VF of a PF can be used, with the remedy.
func whyDown(pf *model.PF) string {
	switch {
	case !pf.LinkUp:
		return "the link of " + pf.Name + " is down"
	case pf.Uplink.Why != "":
		return pf.Uplink.Why + "; " + pf.Uplink.Remedy
	}
	return "the link of " + pf.Name + " has only just come up"
}

func whyNoPF(network string) string {
	return "network " + network + " has no PF with VFs in Sluice's pool; list one under pfs: in sluice.yaml"
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
	stays      []model.Assignment // of VMs that are left unchanged
	cands      []Candidate
	reasons    []model.Reason
	nics       []*model.NIC // of the current VM
	multi      []span       // the VMs with several eligible NICs
	has        []bool       // parallel to the Target's NICs: the NIC has a VF
	lastAssign []model.Assignment
}

// span is the range of a VM's NICs in the Target.
type span struct{ vm, first, n int }

// reset empties the workspace. Reused memory must not keep an old Snapshot alive.
func (w *workspace) reset() {
	for i := range w.pools {
		p := &w.pools[i]
		clear(p.pinned)
		clear(p.open)
		clear(p.winners)
	}
	w.pools, w.stays, w.multi, w.has = w.pools[:0], w.stays[:0], w.multi[:0], w.has[:0]
}

// pool finds the pool of a network; nil if none of our PFs is on it. There are few pools, so a linear scan is fast enough.
func (w *workspace) pool(network string) *pool {
	for i := range w.pools {
		if w.pools[i].network == network {
			return &w.pools[i]
		}
	}
	return nil
}

// addPool finds the pool of a network or creates it, reusing the memory of an earlier one.
func (w *workspace) addPool(network string) *pool {
	if p := w.pool(network); p != nil {
		return p
	}
	n := len(w.pools)
	if n == cap(w.pools) {
		w.pools = append(w.pools, pool{})
	}
	w.pools = w.pools[:n+1]
	p := &w.pools[n]
	*p = pool{network: network, vfs: p.vfs[:0], pinned: p.pinned[:0], open: p.open[:0], winners: p.winners[:0]}
	return p
}

// place puts a NIC that judge has examined into its pool.
func (w *workspace) place(e *entry, vm *model.VM, t *model.Target) {
	p, s := w.slotOf(e.has)
	if s != nil {
		s.held = true
	}
	why := e.reason(t)
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
	switch {
	case p == nil:
		why.Code, why.Detail = model.CodeNoVF, whyNoPF(e.nic.Network)
		if e.rule.Pin {
			why.Detail = "it is pinned, but " + why.Detail
		}
	case e.rule.Pin || e.needs != "":
		p.pinned = append(p.pinned, *e)
	default:
		p.open = append(p.open, *e)
	}
}

// slotOf finds the pool and slot of a VF; nil if it is in no pool.
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
	// With one PF and all its VFs usable, each slot is at its VF's index.
	if i := id.Index; i >= 0 && i < len(p.vfs) && p.vfs[i].vf == id {
		return &p.vfs[i]
	}
	// The slots are sorted because the Snapshot is.
	i, ok := slices.BinarySearchFunc(p.vfs, id, func(s slot, id model.VFID) int { return s.vf.Compare(id) })
	if !ok {
		return nil
	}
	return &p.vfs[i]
}
