package bandwidth

import (
	"fmt"
	"slices"
	"time"

	"sluice/internal/model"
)

// View describes all that the Core knows and does.
func (c *Core) View() *model.Bandwidth {
	v := &model.Bandwidth{
		At: c.at, Period: c.opts.Period, Allocator: c.opts.Allocator, Off: c.opts.Off, Changes: c.changes, Problems: slices.Clone(c.problems),
	}
	lacking := c.shortages()
	for _, l := range c.links {
		s := lacking.links[l]
		v.Links = append(v.Links, c.linkState(l, v))
		v.Links[len(v.Links)-1].Shortage = s.state()
		v.Problems = append(v.Problems, s.problem(l.pf)...)
	}
	v.NICs = slices.Grow(v.NICs, len(c.nics))
	for _, n := range c.nics {
		v.NICs = append(v.NICs, n.view(c))
		lacking.of(n).explain(&v.NICs[len(v.NICs)-1])
		if s := &n.limits[slot(model.PathVF, model.Tx)]; s.undone > undoneAtOnce {
			v.Problems = append(v.Problems, n.contest(s))
		}
	}
	for _, p := range c.vpfs {
		v.VirtualPFs = append(v.VirtualPFs, p.view(c))
		lacking.of(&p.nic).explain(&v.VirtualPFs[len(v.VirtualPFs)-1])
		v.Problems = append(v.Problems, lacking.inside[p].problem(p.vmName)...)
	}
	return v
}

func (c *Core) linkState(l *uplink, v *model.Bandwidth) model.LinkState {
	s := model.LinkState{
		PF: l.pf, Speed: l.speed, Capacity: l.capacity(), Carries: l.carries(), Packets: c.opts.Packets, Carried: l.carried, Total: *l.total,
	}
	for _, n := range l.nics {
		s.Guaranteed.Bits += n.sla.Guarantee.Bits
		s.Guaranteed.Packets += n.own.Guarantee.Packets
	}
	s.Over = l.speed > 0 && s.Guaranteed.Bits > l.speed
	if l.wanted && l.speed == 0 {
		v.Problems = append(v.Problems, model.Problem{
			Subject: l.pf, Text: "its link speed is unknown, so it cannot be shared out, and no guarantee can be kept on it",
			Remedy: "bring the link up, or check its speed with `ethtool " + l.pf + "`",
		})
	}
	return s
}

// believed is the part of what a link is said to carry down to which an allocator's estimate agrees with it.
const believed = 0.99

// carries is what the link is taken to carry: what is said of it, or the allocator's estimate if that is lower.
func (l *uplink) carries() model.Capacity {
	if c := l.alloc.Capacity(); c > 0 && c < believed*l.told {
		return l.said.Inferred(float64(l.speed) - l.told + c) // told is without what cannot be limited
	}
	return l.said
}

func (n *nic) view(c *Core) model.NICBandwidth {
	v := model.NICBandwidth{
		NICID: n.id, VMName: n.vmName, Path: n.path(), SLA: n.sla, Promised: n.promised, Allowed: n.inForce(),
		Sent: n.sent, Received: n.received, Dropped: n.dropped(model.PathVirtio), DroppedVF: n.dropped(model.PathVF), Short: uint64(n.short),
	}
	if n.link != nil {
		v.PF = n.link.pf
	}
	if n.whole != nil {
		v.VirtualPF = n.whole.name
	}
	if n.short > 0 {
		v.ShortFor = c.at.Sub(n.shortFrom)
	}
	v.WouldSend = uint64(c.wouldSend(n))
	for i := range n.limits {
		s := &n.limits[i]
		if n.shared && !s.inForce() && !s.failed() && s.by == n.link.root.by && n.link.root.inForce() { // in the tree, no own limit
			v.Enforcer = append(v.Enforcer, model.Enforcement{Limit: s.Want, By: s.by})
		}
		if s.inForce() {
			v.Enforcer = append(v.Enforcer, model.Enforcement{Limit: s.Has, By: s.by, Error: s.why()})
		} else if s.failed() {
			v.Enforcer = append(v.Enforcer, model.Enforcement{Limit: s.Want, By: s.by, Error: s.why()})
		}
	}
	v.Code, v.Why = n.reason(c)
	return v
}

// contest says that somebody else sets the rates of a NIC's VF too.
func (n *nic) contest(s *limitState) model.Problem {
	return model.Problem{
		Subject: n.vmName,
		Text: fmt.Sprintf("somebody else has set the rates of VF %s %d times, which Sluice sets too; it waits up to %s before it sets them again",
			n.vf, s.undone, undoneRest.Most),
		Remedy: "leave them to one: take qos_hwol out of the extensions of Neutron's agent if it is there, or set vf_rates: none for " + n.vf.PF +
			" in sluice.yaml",
	}
}

// dropped counts what the policer of a path has dropped: that of the tap, or of the VF's representor.
func (n *nic) dropped(p model.Path) model.Dropped { return n.paths[pathIndex(p)].last.Dropped }

// path is the path that the guest sends through.
func (n *nic) path() model.Path {
	if n.onVF() {
		return model.PathVF
	}
	return model.PathVirtio
}

// allowed is what the NIC may send on its path, including its contract; 0: unlimited.
func (n *nic) allowed() model.Rate {
	l := model.Limit{Rate: n.rate(n.own.Limit), Contract: n.own.Limit}
	if n.path() == model.PathVF {
		l.Bits = model.Lower(l.Bits, n.tier)
	}
	return l.Tightest()
}

// inForce is allowed, or of a VF that somebody else attached, which Sluice does not limit, what that one has limited it to.
func (n *nic) inForce() model.Rate {
	if n.onVF() && !n.ours && n.whole == nil {
		return model.Rate{Bits: n.byHand}
	}
	return n.allowed()
}

// reason explains the NIC's allowance, as code and sentence.
func (n *nic) reason(c *Core) (model.BandwidthCode, string) {
	if n.whole != nil {
		return n.reasonInside(c)
	}
	a, sent := n.allowed(), n.sent.Bits
	g := float64(n.promised.Bits)
	atLimit := a.Bits > 0 && sent >= hungry*float64(a.Bits)
	needs := n.link != nil && n.link.active || !a.IsZero()
	switch s := &n.limits[slot(n.path(), model.Tx)]; {
	case n.contained(c.at):
		return model.BandwidthContained, "is kept off VFs until " + n.barred.Format(time.TimeOnly) + ": " + n.offence
	case needs && n.unlimited():
		return model.BandwidthNotEnforced, "nothing can limit it on its " + string(n.path()) + " path: " + n.whyNot(s)
	case needs && !n.known && c.at.Sub(n.seen) > blindAfter*c.opts.Period:
		return model.BandwidthUnknown, "what it sends cannot be counted, so it may send what it is promised, or a fair share"
	case n.promised.Bits < n.sla.Guarantee.Capped(n.sla.Limit).Bits && atLimit:
		return model.BandwidthOver, fmt.Sprintf("more is promised on %s than it carries; of its %s, %s are kept", n.link.pf,
			bits(float64(n.sla.Guarantee.Bits)), bits(g))
	case n.short > 0:
		why := fmt.Sprintf("sends %s of the %s it is promised", bits(sent), bits(g)) + wants(sent, n.short, g, "asks")
		if would := c.wouldSend(n); would > 0 {
			why += fmt.Sprintf("; in enforce mode it would send about %s", bits(would))
		}
		return model.BandwidthShort, why
	case n.own.Limit.Bits > 0 && sent >= hungry*float64(n.own.Limit.Bits):
		return model.BandwidthLimit, "sends all that its limit of " + bits(float64(n.own.Limit.Bits)) + " allows"
	case n.own.Limit.Packets > 0 && n.sent.Packets >= hungry*float64(n.own.Limit.Packets):
		return model.BandwidthLimit, fmt.Sprintf("sends all that its limit of %s allows", model.Rate{Packets: n.own.Limit.Packets})
	case n.shared:
		return model.BandwidthFree, "shares what is left of " + n.link.pf + " with the other VMs on virtio; each gets what it is promised"
	case a.Bits == 0 && n.link != nil && !n.link.active:
		return model.BandwidthFree, "no guarantee or weight asks for a part of " + n.link.pf + ", so nothing is shared out"
	case a.Bits == 0:
		return model.BandwidthFree, "nobody needs what it could take"
	case atLimit && g > 0 && float64(a.Bits) <= g*(1+shortShare):
		return model.BandwidthGuarantee, "has the " + bits(g) + " it is promised, and asks for more than is left over"
	case atLimit:
		return model.BandwidthShare, "asks for more than its share of what is left over, " + bits(float64(a.Bits))
	}
	return model.BandwidthSpare, "has what it asks for, and may send up to " + bits(float64(a.Bits))
}

func (n *nic) whyNot(s *limitState) string {
	switch {
	case s.failed():
		return s.why()
	case n.vf != model.NoVF && !n.ours && n.onVF():
		return "somebody else attached its VF"
	case n.path() == model.PathVF:
		return "the driver of " + n.vf.PF + " has no VF rates; `bandwidth.in_guest` would limit it in the guest"
	}
	return "this kernel has neither TCX nor HTB for its tap"
}

// bits formats a rate.
func bits(b float64) string { return model.Bits(max(b, 0)) + "/s" }
