package bandwidth

import (
	"fmt"

	"sluice/internal/model"
)

// view is the combined state of all functions of the virtual PF.
func (v *virtualPF) view(c *Core) model.NICBandwidth {
	out := v.nic.view(c)
	out.VirtualPF = v.name
	for _, n := range v.functions {
		d := n.paths[pathIndex(model.PathVirtio)].last.Dropped
		out.Dropped.Tx, out.Dropped.Rx = out.Dropped.Tx+d.Tx, out.Dropped.Rx+d.Rx
	}
	return out
}

// reasonInside is reason for a function of a virtual PF.
func (n *nic) reasonInside(c *Core) (model.BandwidthCode, string) {
	a, sent, g, of := n.allowed(), n.sent.Bits, float64(n.promised.Bits), "virtual PF "+n.whole.name
	atLimit := a.Bits > 0 && sent >= hungry*float64(a.Bits)
	switch s := &n.limits[slot(model.PathVirtio, model.Tx)]; {
	case n.idle():
		return model.BandwidthNoCarrier, "has no carrier, so nothing passes"
	case !a.IsZero() && n.unlimited():
		return model.BandwidthNotEnforced, "nothing can limit it to its part of " + of + ": " + n.whyNot(s)
	case !a.IsZero() && !n.known && c.at.Sub(n.seen) > blindAfter*c.opts.Period:
		return model.BandwidthUnknown, "what it sends cannot be counted, so it may send what it is promised inside " + of + ", or a fair share"
	case n.promised.Bits < n.sla.Guarantee.Bits && atLimit:
		return model.BandwidthOver, fmt.Sprintf("more is promised inside %s than it is promised itself; of its %s, %s are kept", of,
			bits(float64(n.sla.Guarantee.Bits)), bits(g))
	case n.short > 0:
		return model.BandwidthShort, fmt.Sprintf("sends %s of the %s it is promised inside %s", bits(sent), bits(g), of)
	case n.own.Limit.Bits > 0 && sent >= hungry*float64(n.own.Limit.Bits):
		return model.BandwidthLimit, fmt.Sprintf("sends all that its limit of %s inside %s allows", bits(float64(n.own.Limit.Bits)), of)
	case n.own.Limit.Packets > 0 && n.sent.Packets >= hungry*float64(n.own.Limit.Packets):
		return model.BandwidthLimit, fmt.Sprintf("sends all that its limit of %s inside %s allows", model.Rate{Packets: n.own.Limit.Packets}, of)
	case a.Bits == 0:
		return model.BandwidthFree, "neither " + of + " nor its functions are held down"
	case atLimit && g > 0 && float64(a.Bits) <= g*(1+shortShare):
		return model.BandwidthGuarantee, "has the " + bits(g) + " it is promised inside " + of + ", and asks for more than is left over there"
	case atLimit:
		return model.BandwidthShare, "asks for more than its share of what " + of + " may send, " + bits(float64(a.Bits))
	}
	return model.BandwidthSpare, "has what it asks for, and may send up to " + bits(float64(a.Bits)) + " of what " + of + " may"
}
