package placement

import (
	"maps"
	"time"

	"sluice/internal/model"
)

// Hints are what the control loop knows and the Snapshot does not show yet: moves under way or just completed, and NICs and VFs
// that must be left alone for a while.
type Hints struct {
	NICs map[model.NICID]Hint
	// BadVFs maps VFs that failed recently to the time until which they are not assigned.
	BadVFs map[model.VFID]time.Time
	// Cost returns the measured cost of a VM's moves; nil: unknown.
	Cost func(model.VMID) Cost
}

// Hint overrides what the Snapshot says about one NIC.
type Hint struct {
	VF     model.VFID // the VF it has, or will have when its move is complete
	Code   model.Code // why it is left unchanged: moving or backoff; "" if only VF counts
	Until  time.Time
	Detail string
}

// Decider turns Snapshots into Targets. It holds the state of the policies, one policy per network, and is deterministic: equal
// sequences of calls give equal Targets.
type Decider struct {
	rules      model.Rules
	policies   map[string]Policy
	links      map[string]time.Time // when a PF's link was first seen up again after being down
	known      []knownVM            // the VMs for which ruledBy and duplicates were computed
	ruledBy    []model.VMRule
	duplicates map[model.NICID]string // NICs with a duplicate MAC on their network, and the NIC each conflicts with
	promises   *promises
	work       workspace
}

// linkSettle is how long a link must have been up again before VFs of its PF are assigned.
const linkSettle = 5 * time.Second

// New returns a Decider. It fails if the policy does not exist.
func New(rules model.Rules) (*Decider, error) {
	if _, err := NewPolicy(rules); err != nil {
		return nil, err
	}
	return &Decider{rules: rules, policies: map[string]Policy{}, links: map[string]time.Time{}}, nil
}

// SetRules changes the rules. The policies keep their state unless the policy, its interval or its parameters change.
func (d *Decider) SetRules(rules model.Rules) error {
	if _, err := NewPolicy(rules); err != nil {
		return err
	}
	if !samePolicy(rules, d.rules) {
		d.policies = map[string]Policy{}
	}
	d.rules = rules
	d.known = nil
	return nil
}

// Decide determines which NIC should hold which VF now, and why. The Target is new, so the caller may keep it.
func (d *Decider) Decide(now time.Time, snap *model.Snapshot, hints *Hints) *model.Target {
	w := &d.work
	t := &model.Target{
		Time:    now,
		Assign:  make([]model.Assignment, 0, len(w.lastAssign)+8),
		Reasons: make([]model.Reason, len(snap.VMs)),
	}
	w.reset()
	d.gatherVFs(now, snap, hints)
	d.bound(snap)
	d.gatherVMs(snap, hints, t)
	for i := range w.pools {
		d.share(now, &w.pools[i], snap, hints, t)
	}
	w.several(snap, t)
	t.Assign = w.assign(snap, t)
	t.Limits = d.caps(now, snap, t)
	tellRates(snap, t)
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
		p := w.addPool(pf.Network)
		p.serves = p.serves || len(pf.VFs) > 0
		if !d.usable(now, pf) {
			p.why = whyDown(pf)
			continue
		}
		for j := range pf.VFs {
			vf := &pf.VFs[j]
			if vf.Owner == model.OwnerForeign || vf.NoPort != "" || now.Before(hints.BadVFs[vf.ID]) {
				continue
			}
			p.vfs = append(p.vfs, slot{vf: vf.ID, numa: pf.NUMANode})
		}
	}
}

// usable reports whether the PF's VFs can carry traffic: its link is up, and it is connected to the bridge in a way that passes
// frames for a VF. A guest whose VF has no carrier receives nothing on its standby either, so link loss counts at once, and a
// link that comes back counts only after it has been up for linkSettle.
func (d *Decider) usable(now time.Time, pf *model.PF) bool {
	since, seen := d.links[pf.Name]
	if !pf.LinkUp || pf.Uplink.Why != "" {
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

// bound drops state of networks and PFs that no longer exist once they outnumber the existing ones, because names come and go
// for as long as the daemon runs.
func (d *Decider) bound(snap *model.Snapshot) {
	const spare = 8
	if len(d.policies) > 2*len(d.work.pools)+spare {
		maps.DeleteFunc(d.policies, func(network string, _ Policy) bool { return d.work.pool(network) == nil })
	}
	if len(d.links) > 2*len(snap.PFs)+spare {
		maps.DeleteFunc(d.links, func(name string, _ time.Time) bool { return snap.FindPF(name) == nil })
	}
}
