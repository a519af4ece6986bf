package bandwidth

import (
	"cmp"

	"sluice/internal/model"
)

// PlugLimit is what the NIC's VF must stand at before it carries a frame. From now on the NIC counts as one that
// is about to get a VF.
func (c *Core) PlugLimit(id model.NICID) model.Limit {
	out := model.Limit{LimitKey: model.LimitKey{VM: id.VM, NIC: id.NIC, Path: model.PathVF, Dir: model.Tx}}
	n := c.find(id)
	if n == nil {
		return out
	}
	n.asked, n.plugging = c.at, true
	out.Contract = n.vfContract()
	if l := n.link; l != nil && l.active {
		a := n.allow
		if n.shared {
			a.Bits = max(float64(n.promised.Bits), n.sent.Bits*growth, l.fairShare(n))
		}
		was := n.allow
		n.allow = a
		out.Rate = n.rate(out.Contract)
		n.allow = was
	}
	return out
}

// By names the enforcer that a Limit is for; "": none.
func (c *Core) By(k model.LimitKey) string {
	if s := c.state(k); s != nil {
		return s.by
	}
	return ""
}

// Plug is what the placement loop must know before a NIC gets a VF: the rate in bits/s that the VF itself
// is set to (0: none), and what the plug has to wait for ("": nothing). Where not the VF is limited but the guest, that
// is done, and seen, before the VF is there.
func (c *Core) Plug(id model.NICID) (rate uint64, wait string) {
	l := c.PlugLimit(id)
	s := c.state(l.LimitKey)
	switch {
	case c.opts.Mode == model.ModeObserve || c.opts.Off && s == nil:
		return 0, ""
	case s == nil:
		return 0, "what it may send is not known yet"
	case c.find(id).contained(c.at):
		return 0, c.find(id).offence
	case s.by == "":
		return 0, "" // that it cannot be limited is for placement to judge
	case s.by == maxTxRate:
		return l.Tightest().Bits, ""
	case l.Lifts(), s.has && s.failed.IsZero() && s.now.Contract == l.Contract && (l.Bits == 0 || s.now.Bits > 0):
		return 0, ""
	case !s.failed.IsZero():
		return 0, "its guest cannot be limited yet: " + cmp.Or(s.why, s.by+" could not be set")
	}
	return 0, "its guest is being limited first"
}

// fairShare is the NIC's part of its link by weight.
func (l *uplink) fairShare(n *nic) float64 {
	sum := 0.0
	for _, o := range l.nics {
		sum += o.own.Share()
	}
	return cmp.Or(l.alloc.Capacity(), float64(l.speed)) * n.own.Share() / max(sum, n.own.Share())
}
