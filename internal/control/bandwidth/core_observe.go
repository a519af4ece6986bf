package bandwidth

import "sluice/internal/model"

// wouldSend estimates what a NIC that is short in observe mode would send if limits were enforced, in bits/s: what the others
// on its link send above their allowances goes to the NICs that are short, in proportion. 0: it is not short, or it is a
// function of a virtual PF, which shares with its siblings first.
func (c *Core) wouldSend(n *nic) float64 {
	if c.opts.Mode != model.ModeObserve || n.short == 0 || n.link == nil || n.whole != nil {
		return 0
	}
	short, beyond := 0.0, 0.0
	for _, o := range n.link.nics {
		if short += o.short; o.short == 0 && !o.unlimited() {
			beyond += max(0, o.sent.Bits-o.wouldBeAllowed())
		}
	}
	return n.sent.Bits + n.short*min(1, beyond/short)
}

// wouldBeAllowed is what the NIC may send while others lack part of their guarantees. In a tree that is its own guarantee.
func (n *nic) wouldBeAllowed() float64 {
	if n.shared {
		return float64(n.promised.Bits)
	}
	return n.allow.Bits
}
