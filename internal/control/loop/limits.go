package loop

import (
	"context"
	"slices"

	"sluice/internal/control/bandwidth"
	"sluice/internal/control/placement"
	"sluice/internal/model"
)

// Enforcer applies Limits. It does not run Steps: what it applies is idempotent, needs no journal, and is compared with the next
// Snapshot. It leaves limits alone that are already in place.
type Enforcer interface {
	// Name is its name in messages and metrics, such as "max_tx_rate" or "htb".
	Name() string
	// Can reports whether such a Limit is possible on the host as the Snapshot shows it: Unknown if only trying shows. It must
	// not use any other source.
	Can(snap *model.Snapshot, key model.LimitKey) model.Tri
	// Apply sets a batch of limits (0 bits/s: lifts the limit) by ctx's deadline and returns those that are in place, rounded as
	// they were applied; err joins a model.LimitError for each other one.
	Apply(ctx context.Context, snap *model.Snapshot, batch []model.Limit) (now []model.Limit, err error)
}

// Plugs decides what must be in place before a NIC is given a VF.
type Plugs interface {
	// Plug returns the rate that the VF is set to before it carries a frame (0: none), and what the plug has to wait for ("":
	// nothing). It changes nothing.
	Plug(id model.NICID) (rate model.Rate, wait string)
	// Expect records that the NIC's plug is next: it begins, or waits for its limit alone.
	Expect(id model.NICID)
	// Contained lists NICs that are to have no VF for a while.
	Contained() []bandwidth.Contained
}

// hintContained tells placement which NICs' guests did not keep their limits on a VF.
func (c *Core) hintContained(h *placement.Hints) {
	if c.plugs == nil {
		return
	}
	for _, x := range c.plugs.Contained() {
		if h.NICs == nil {
			h.NICs = map[model.NICID]placement.Hint{}
		}
		if h.NICs[x.NIC].Code != model.CodeMoving {
			h.NICs[x.NIC] = placement.Hint{Code: model.CodeSLA, Until: x.Until, Detail: x.Why}
		}
	}
}

// LimitPlugs makes the Core ask p before each plug; nil: it asks nobody.
func (c *Core) LimitPlugs(p Plugs) { c.plugs = p }

// limitPlug sets the rate that the VF of a plug begins with, or returns what the plug has to wait for.
func (c *Core) limitPlug(m *model.Move) (wait string) {
	if m.Kind != model.MovePlug || c.plugs == nil {
		return ""
	}
	rate, wait := c.plugs.Plug(nicOf(*m))
	if wait != "" || rate.IsZero() {
		return wait
	}
	m.Steps = slices.Clone(m.Steps) // a View may share them
	for i := range m.Steps {
		if vf := &m.Steps[i].VF; vf.ID != model.NoVF {
			vf.MaxTxRate, vf.MaxPackets = model.Lower(vf.MaxTxRate, rate.Bits), rate.Packets
		}
	}
	return ""
}

// tellWaits adds what plugs wait for to their Reasons. It may change the Target, which is new: no View has it yet.
func (c *Core) tellWaits() {
	for i := range c.waiting {
		m := &c.waiting[i]
		wait := c.limitPlug(m)
		if wait == "" {
			continue
		}
		at := slices.IndexFunc(c.snap.VMs, func(vm model.VM) bool { return vm.ID == m.VM })
		for _, why := range []*model.Reason{c.target.NIC(at, m.NIC), &m.Reason} {
			if why.Detail != "" {
				why.Detail += "; "
			}
			why.Detail += "the plug waits: " + wait
		}
	}
}
