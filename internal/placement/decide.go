package placement

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sluice/internal/model"
)

// Hints are what the loop knows and the Snapshot does not show yet: moves under way
// or just done, and VMs and VFs that must be left alone for a while.
type Hints struct {
	VMs map[model.VMID]Hint
	// BadVFs failed lately and are not given out until the time has passed.
	BadVFs map[model.VFID]time.Time
	// Cost says what moves of a VM have cost so far; nil: not known.
	Cost func(model.VMID) Cost
}

// Hint overrides what the Snapshot says about one VM.
type Hint struct {
	VF     model.VFID // the VF it has, or will have when its move is done
	Code   model.Code // why it is left as it is: moving or backoff; "" when only VF counts
	Until  time.Time
	Detail string
}

// Decider turns Snapshots into Targets. It holds the policies' memory, one policy per
// network, and is deterministic: equal sequences of calls give equal Targets.
type Decider struct {
	rules    model.Rules
	policies map[string]Policy
	links    map[string]time.Time // when a PF's link was first seen up again after being down
	ruled    []model.VMID         // the VMs that ruledBy is of
	ruledBy  []model.VMRule
	work     workspace
}

// linkSettle is how long a link must have been up again before VFs of its PF are given out.
const linkSettle = 5 * time.Second

// New makes a Decider. It fails when the policy does not exist.
func New(rules model.Rules) (*Decider, error) {
	if _, err := NewPolicy(rules); err != nil {
		return nil, err
	}
	return &Decider{rules: rules, policies: map[string]Policy{}, links: map[string]time.Time{}}, nil
}

// SetRules changes the rules. The policies keep their memory unless the policy, its
// interval or its parameters change.
func (d *Decider) SetRules(rules model.Rules) error {
	if _, err := NewPolicy(rules); err != nil {
		return err
	}
	if !samePolicy(rules, d.rules) {
		d.policies = map[string]Policy{}
	}
	d.rules = rules
	d.ruled = nil
	return nil
}

// Decide says who should hold which VF now, and why. The Target is new and may be kept.
func (d *Decider) Decide(now time.Time, snap *model.Snapshot, hints *Hints) *model.Target {
	w := &d.work
	t := &model.Target{
		Time:    now,
		Assign:  make([]model.Assignment, 0, len(w.lastAssign)+8),
		Reasons: make([]model.Reason, len(snap.VMs)),
	}
	w.reset()
	d.gatherVFs(now, snap, hints)
	d.gatherVMs(snap, hints, t.Reasons)
	for i := range w.pools {
		d.share(now, &w.pools[i], snap, hints, t.Reasons)
	}
	t.Assign = w.assign(snap, t.Assign)
	t.Limits = w.limits(snap)
	w.lastAssign = t.Assign
	return t
}

// gatherVFs sorts the usable VFs into pools by network.
func (d *Decider) gatherVFs(now time.Time, snap *model.Snapshot, hints *Hints) {
	w := &d.work
	for i := range snap.PFs {
		pf := &snap.PFs[i]
		if !pf.Managed || pf.Network == "" {
			continue
		}
		p := w.pool(pf.Network)
		if !d.usable(now, pf) {
			p.down = true
			continue
		}
		for j := range pf.VFs {
			vf := &pf.VFs[j]
			if vf.Owner == model.OwnerForeign || now.Before(hints.BadVFs[vf.ID]) {
				continue
			}
			p.vfs = append(p.vfs, slot{vf: vf.ID, numa: pf.NUMANode})
		}
	}
}

// usable says whether the PF's VFs can carry traffic. A guest whose VF has no carrier
// hears nothing on its standby either, so a link that goes down counts at once, and
// one that comes back only after it has been up for a while.
func (d *Decider) usable(now time.Time, pf *model.PF) bool {
	since, seen := d.links[pf.Name]
	if !pf.LinkUp {
		d.links[pf.Name] = time.Time{}
		return false
	}
	if !seen {
		d.links[pf.Name] = now.Add(-linkSettle)
		return true
	}
	if since.IsZero() {
		d.links[pf.Name] = now
		return false
	}
	return now.Sub(since) >= linkSettle
}

// gatherVMs finds each VM's pair and the pool it competes in, or why it does not.
func (d *Decider) gatherVMs(snap *model.Snapshot, hints *Hints, out []model.Reason) {
	w := &d.work
	rules := d.rulesFor(snap)
	for i := range snap.VMs {
		vm := &snap.VMs[i]
		r := &rules[i]
		e := entry{vm: i, rule: r}
		e.nic, e.has = pair(vm, r)
		hint, hinted := hints.VMs[vm.ID]
		if hinted {
			e.has = hint.VF
		}
		why := d.judge(vm, &e, hint, hinted)
		why.VM = vm.ID
		out[i] = why
		w.place(e, why, vm)
	}
}

// judge says why a VM takes no part in the ranking; a zero Code means it does.
func (d *Decider) judge(vm *model.VM, e *entry, hint Hint, hinted bool) model.Reason {
	holds := e.has != model.NoVF
	foreign := vm.Held() != nil && vm.Held().VFOwner == model.OwnerForeign
	switch {
	case hinted && hint.Code != "":
		return model.Reason{Code: hint.Code, Hold: holds, Until: hint.Until, Detail: hint.Detail}
	case foreign:
		return model.Reason{Code: model.CodeForeign, Hold: true}
	case vm.State == model.VMStopped:
		return model.Reason{Code: model.CodeNotNeeded}
	case vm.State != model.VMRunning:
		return model.Reason{Code: model.CodeVeto, Hold: holds, Detail: "the domain is " + string(vm.State) + "; it is left alone until it runs"}
	}
	if text := veto(vm, e.nic, holds); text != "" {
		return model.Reason{Code: model.CodeVeto, Hold: holds, Detail: text}
	}
	switch {
	case d.rules.Drain:
		return model.Reason{Code: model.CodeDrain}
	case e.rule.Forbid && e.rule.ByHand:
		return model.Reason{Code: model.CodeReleased, Detail: "`sluice unpin` gives it back to the policy"}
	case e.rule.Forbid:
		return model.Reason{Code: model.CodeForbidden}
	}
	return model.Reason{}
}

// veto says why a VM must not be given a VF (or, when it holds one, robbed of it): it
// could not fall back to virtio. "" when it may be moved.
func veto(vm *model.VM, nic *model.NIC, holds bool) string {
	switch {
	case nic == nil && len(vm.NICs) == 0:
		return "it has no virtio NIC"
	case nic == nil:
		return "no virtio NIC of it can fail over: add <teaming type='persistent'/> and a user alias to its <interface> and restart it, or set failover: bond for it in sluice.yaml if the guest has an active-backup bond"
	case nic.LinkUp == model.No:
		return "its virtio path is broken: tap " + nic.Tap + " is down or in no bridge; mend it first"
	case holds:
		return ""
	case nic.FreePort == model.No:
		return "it has no free PCIe root port: add <controller type='pci' model='pcie-root-port'/> and restart it"
	case vm.Ready == model.No:
		return "its guest OS is not up: the agent channel is not connected yet"
	}
	return ""
}

// pair is the NIC that holds our VF, or else the first that can fail over.
func pair(vm *model.VM, r *model.VMRule) (*model.NIC, model.VFID) {
	if n := vm.Ours(); n != nil {
		return n, n.VF
	}
	for i := range vm.NICs {
		n := &vm.NICs[i]
		if n.Failover != model.FailoverNone || r.Failover == model.FailoverBond {
			return n, model.NoVF
		}
	}
	return nil, model.NoVF
}

// share lets the pinned and then the policy's choice have the pool's slots.
func (d *Decider) share(now time.Time, p *pool, snap *model.Snapshot, hints *Hints, out []model.Reason) {
	slots := len(p.vfs) - p.fixed
	slots = d.sharePinned(p, snap, slots, out)
	w := &d.work
	w.cands = w.cands[:0]
	for _, e := range p.open {
		w.cands = append(w.cands, candidate(&snap.VMs[e.vm], e, hints))
	}
	if cap(w.reasons) < len(w.cands) {
		w.reasons = make([]model.Reason, len(w.cands)*2)
	}
	verdicts := w.reasons[:len(w.cands)]
	direct := len(w.cands) == len(out) // the usual case: every VM competes here
	if direct {
		verdicts = out
	} else {
		clear(verdicts)
	}
	if len(w.cands) > 0 {
		d.policy(p.network).Select(now, w.cands, max(0, slots), verdicts)
	}
	for i, e := range p.open {
		why := &out[e.vm]
		if !direct {
			*why = verdicts[i]
		}
		why.VM = snap.VMs[e.vm].ID
		switch {
		case len(p.vfs) == 0:
			*why = model.Reason{VM: why.VM, Code: model.CodeNoVF, Detail: p.whyEmpty()}
		case len(p.open) <= slots && d.rules.Policy != "none":
			why.Hold, why.Code, why.Other, why.OtherNm = true, model.CodeEnough, "", ""
		}
		if why.Hold {
			e.rate = why.Rate
			p.winners = append(p.winners, e)
		}
	}
}

// sharePinned gives slots to the pinned VMs, holders first, and returns what is left.
func (d *Decider) sharePinned(p *pool, snap *model.Snapshot, slots int, out []model.Reason) int {
	slices.SortFunc(p.pinned, func(a, b entry) int {
		return cmp.Or(
			cmp.Compare(b.rule.Priority, a.rule.Priority),
			trueFirst(a.has != model.NoVF, b.has != model.NoVF),
			cmp.Compare(snap.VMs[a.vm].ID, snap.VMs[b.vm].ID),
		)
	})
	for _, e := range p.pinned {
		r := model.Reason{VM: snap.VMs[e.vm].ID, Code: model.CodePinned, Hold: slots > 0}
		if e.rule.ByHand {
			r.Detail = "by `sluice pin`"
		}
		if r.Hold {
			p.winners = append(p.winners, e)
			slots--
		} else {
			r.Code, r.Detail = model.CodeNoVF, "it is pinned, but "+p.whyFull()
		}
		out[e.vm] = r
	}
	return slots
}

func (d *Decider) policy(network string) Policy {
	p, ok := d.policies[network]
	if !ok {
		p, _ = NewPolicy(d.rules) // the name was checked by New and SetRules
		d.policies[network] = p
	}
	return p
}

func candidate(vm *model.VM, e entry, hints *Hints) Candidate {
	c := Candidate{
		VM: vm.ID, Name: vm.Name, Holds: e.has != model.NoVF,
		Weight: e.rule.Weight, Priority: e.rule.Priority,
	}
	if hints.Cost != nil {
		c.Cost = hints.Cost(vm.ID)
	}
	c.PPS, c.Bytes, c.Known = e.nic.Load()
	if vm.CPUKnown {
		c.CPU, c.CPUShare = vm.CPU, min(1, vm.CPU/float64(max(1, vm.VCPUs)))
	}
	// A figure that is no figure would poison a policy's means for ever.
	if !finite(c.PPS) || !finite(c.Bytes) {
		c.PPS, c.Bytes, c.Known = 0, 0, false
	}
	return c
}

func finite(x float64) bool { return x >= 0 && !math.IsInf(x, 0) && !math.IsNaN(x) }
