package bandwidth

import (
	"cmp"

	"sluice/internal/model"
)

// Expect records that the NIC's plug is next: it begins now, or waits only for its limit. A limit inside the guest is set from
// now on, before the VF is there.
func (c *Core) Expect(id model.NICID) {
	if n := c.byID[id]; n != nil {
		n.expected, n.plugging = c.at, true
	}
}

// plugLimit is the limit that the NIC's VF must have before it carries a frame.
func (c *Core) plugLimit(n *nic) model.Limit {
	contract := n.vfContract()
	return model.Limit{LimitKey: n.limits[slot(model.PathVF, model.Tx)].key, Contract: contract, Rate: n.lowered(n.onItsOwn(), contract)}
}

// onItsOwn is what the NIC may send outside its link's tree, which divides bits/s among its NICs itself.
func (n *nic) onItsOwn() Allowance {
	a := n.allow
	if n.shared {
		a.Bits = max(float64(n.promised.Bits), n.sent.Bits*growth, n.link.fairShare(n))
	}
	return a
}

// By names the enforcer for a Limit; "": none.
func (c *Core) By(k model.LimitKey) string {
	if s := c.state(k); s != nil {
		return s.by
	}
	return ""
}

// Plug is what the placement loop must know before a NIC gets a VF: the rate to which the VF itself is set (0: none), and what
// the plug must wait for ("": nothing). If the guest is limited instead of the VF, that limit must be in force before the VF is
// there. Plug changes nothing: see Expect.
func (c *Core) Plug(id model.NICID) (rate model.Rate, wait string) {
	n := c.byID[id]
	switch {
	case c.opts.Mode == model.ModeObserve || c.opts.Off && n == nil:
		return model.Rate{}, ""
	case n == nil:
		return model.Rate{}, "what it may send is not known yet"
	case n.contained(c.at):
		return model.Rate{}, n.offence
	}
	l, s := c.plugLimit(n), &n.limits[slot(model.PathVF, model.Tx)]
	switch {
	case s.by == "":
		return model.Rate{}, "" // placement decides whether it may have a VF although it cannot be limited
	case s.by == maxTxRate:
		rate = l.Tightest()
		if !n.polices() {
			rate.Packets = 0
		}
		return rate, ""
	case l.Lifts(), s.inForce() && !s.failed() && s.Has.Contract == l.Contract && (l.Bits == 0 || s.Has.Bits > 0):
		return model.Rate{}, ""
	case s.failed():
		return model.Rate{}, "its guest cannot be limited yet: " + s.why()
	}
	return model.Rate{}, "its guest is being limited first"
}

// fairShare is the NIC's part of its link by weight.
func (l *uplink) fairShare(n *nic) float64 {
	sum := 0.0
	for _, o := range l.nics {
		sum += o.own.Share()
	}
	return l.capacity() * n.own.Share() / max(sum, n.own.Share())
}

// capacity is what the link is taken to carry in bits/s: its speed until the Allocator has run.
func (l *uplink) capacity() float64 { return cmp.Or(l.alloc.Capacity(), float64(l.speed)) }
