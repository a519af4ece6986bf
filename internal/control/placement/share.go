package placement

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sluice/internal/model"
)

// share assigns the pool's slots to the pinned NICs first, then to the policy's choice.
func (d *Decider) share(now time.Time, p *pool, snap *model.Snapshot, hints *Hints, t *model.Target) {
	slots := len(p.vfs) - p.fixed
	slots = p.sharePinned(snap, slots, t)
	w := &d.work
	w.cands = w.cands[:0]
	worth := d.rules.Worth
	worth.CPU = worth.CPU && makers[d.rules.Policy].packets
	for i := range p.open {
		w.cands = append(w.cands, candidate(&worth, &snap.VMs[p.open[i].vm], &p.open[i], hints))
	}
	verdicts := t.Reasons
	direct := len(w.cands) == len(t.Reasons) && len(t.NICs) == 0 // the usual case: every VM competes here
	if !direct {
		if cap(w.reasons) < len(w.cands) {
			w.reasons = make([]model.Reason, len(w.cands)*2)
		}
		verdicts = w.reasons[:len(w.cands)]
		clear(verdicts)
	}
	if len(w.cands) > 0 {
		d.policy(p.network).Select(now, w.cands, max(0, slots), verdicts)
	}
	for i := range p.open {
		e := &p.open[i]
		why := e.reason(t)
		if !direct {
			*why = verdicts[i]
		}
		why.VM, why.NIC = snap.VMs[e.vm].ID, e.nicName(&snap.VMs[e.vm])
		if worth := w.cands[i].Worth; worth != 1 {
			why.Worth = worth
		}
		switch {
		case len(p.vfs) == 0:
			*why = model.Reason{VM: why.VM, NIC: why.NIC, Code: model.CodeNoVF, Detail: p.whyEmpty()}
		case len(p.open) <= slots && !makers[d.rules.Policy].spares:
			why.Hold, why.Code, why.Other, why.OtherNm = true, model.CodeEnough, "", ""
		}
		if why.Hold {
			p.winners = append(p.winners, *e)
		}
	}
}

// sharePinned assigns slots to the pinned NICs, then to those whose SLA requires a VF, holders first, and returns how many are
// left.
func (p *pool) sharePinned(snap *model.Snapshot, slots int, t *model.Target) int {
	slices.SortFunc(p.pinned, func(a, b entry) int {
		return cmp.Or(
			trueFirst(a.rule.Pin, b.rule.Pin),
			cmp.Compare(b.rule.Priority, a.rule.Priority),
			trueFirst(a.has != model.NoVF, b.has != model.NoVF),
			cmp.Compare(snap.VMs[a.vm].ID, snap.VMs[b.vm].ID),
			cmp.Compare(a.nic.Alias, b.nic.Alias),
		)
	})
	for _, e := range p.pinned {
		r := e.reason(t)
		r.Code, r.Hold = model.CodePinned, slots > 0
		asked := "it is pinned"
		switch {
		case !e.rule.Pin:
			r.Code, r.Detail, asked = model.CodeSLA, e.needs, "its SLA requires one ("+e.needs+")"
		case e.rule.ByHand:
			r.Detail, r.By = "by `sluice pin`", e.rule.By
		}
		if r.Hold {
			p.winners = append(p.winners, e)
			slots--
		} else {
			r.Code, r.Detail = model.CodeNoVF, asked+", but "+p.whyFull()
		}
	}
	return slots
}

// several keeps VMs with several NICs within their free ports and gives each VM the Reason of its foremost NIC.
func (w *workspace) several(snap *model.Snapshot, t *model.Target) {
	for _, s := range w.multi {
		nics, has := t.NICs[s.first:s.first+s.n], w.has[s.first:s.first+s.n]
		withinPorts(&snap.VMs[s.vm], nics, has)
		best := &nics[0]
		for i := range nics {
			if foremost(&nics[i], best) < 0 {
				best = &nics[i]
			}
		}
		t.Reasons[s.vm] = *best
	}
}

// withinPorts withdraws VFs that a VM was to get beyond its free ports, from the last NICs first. has tells which NICs already
// have a VF.
func withinPorts(vm *model.VM, nics []model.Reason, has []bool) {
	for vm.Ports > 0 { // otherwise ports are not counted: each NIC itself tells whether none is free
		plugs := 0
		var last *model.Reason
		for i := range nics {
			if !nics[i].Hold || has[i] {
				continue
			}
			plugs++
			if last == nil || foremost(&nics[i], last) > 0 {
				last = &nics[i]
			}
		}
		if plugs <= vm.Ports {
			return
		}
		last.Hold, last.Code, last.Detail = false, model.CodeVeto, "other NICs of the VM leave no PCIe root port for it: "+addPort(vm)
	}
}

// foremost orders the Reasons of a VM's NICs: those with a VF first, then those that compete for one, then by score.
func foremost(a, b *model.Reason) int {
	competes := func(r *model.Reason) bool { return r.Policy != "" || r.Code == model.CodePinned }
	return cmp.Or(
		trueFirst(a.Hold, b.Hold),
		trueFirst(competes(a), competes(b)),
		trueFirst(a.Code == model.CodePinned, b.Code == model.CodePinned),
		cmp.Compare(b.Score, a.Score),
	)
}

func (d *Decider) policy(network string) Policy {
	p, ok := d.policies[network]
	if !ok {
		p, _ = NewPolicy(d.rules) // the name was checked by New and SetRules
		d.policies[network] = p
	}
	return p
}

// candidate is a NIC as policies see it. The value of its packets is applied here and nowhere else.
func candidate(worth *model.Worth, vm *model.VM, e *entry, hints *Hints) Candidate {
	c := Candidate{
		VM: vm.ID, NIC: e.nic.Alias, Name: vm.Name, Holds: e.has != model.NoVF,
		Weight: e.rule.Weight * worth.OfSensitivity(e.rule.Sensitivity), Priority: e.rule.Priority,
	}
	if hints.Cost != nil {
		c.Cost = hints.Cost(vm.ID)
	}
	c.PPS, c.Bytes, c.Known = e.nic.Load()
	if vm.CPUKnown {
		c.CPU, c.CPUShare = vm.CPU, min(1, vm.CPU/float64(max(1, vm.VCPUs)))
	}
	// An invalid number would corrupt a policy's means permanently.
	if !finite(c.PPS) || !finite(c.Bytes) {
		c.PPS, c.Bytes, c.Known = 0, 0, false
	}
	cpu := worth.OfLoad(c.PPS, c.Bytes)
	c.PPS *= cpu
	c.Worth = c.Weight * cpu
	return c
}

func finite(x float64) bool { return x >= 0 && !math.IsInf(x, 0) && !math.IsNaN(x) }
