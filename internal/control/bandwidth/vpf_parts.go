package bandwidth

import (
	"math"

	"sluice/internal/model"
)

// A virtual PF's limit must also hold while nobody divides it by current load. Each function then has as its contract the part
// that it gets by guarantee and weight; the parts of all functions with a carrier add up to at most the limit. While the daemon
// runs, what the Allocator allows a function replaces that part.

// setParts divides the limits of the virtual PF for the time in which no daemon does.
func (v *virtualPF) setParts() {
	guarantee := func(n *nic) model.Rate { return n.own.Guarantee }
	none := func(*nic) model.Rate { return model.Rate{} }
	v.divideLimit(v.own.Limit, guarantee, func(n *nic) (own, part *model.Rate) { return &n.own.Limit, &n.part })
	v.divideLimit(v.own.Receive, none, func(n *nic) (own, part *model.Rate) { return &n.own.Receive, &n.receivePart })
}

// divideLimit sets each function's part of a limit. Where the limit is 0 there is nothing to divide: a part is then the
// function's own limit.
func (v *virtualPF) divideLimit(limit model.Rate, guarantee func(*nic) model.Rate, of func(*nic) (own, part *model.Rate)) {
	for _, n := range v.functions {
		own, part := of(n)
		*part = *own
	}
	if limit.Bits > 0 {
		v.split(limit.Bits, func(n *nic) (g, own uint64, part *uint64, least uint64) {
			o, p := of(n)
			return guarantee(n).Bits, o.Bits, &p.Bits, n.least()
		})
	}
	if limit.Packets > 0 {
		v.split(limit.Packets, func(n *nic) (g, own uint64, part *uint64, least uint64) {
			o, p := of(n)
			return guarantee(n).Packets, o.Packets, &p.Packets, 1
		})
	}
}

// split divides an amount over the functions that have a carrier; the others get the minimum.
func (v *virtualPF) split(amount uint64, of func(*nic) (g, own uint64, part *uint64, least uint64)) {
	v.parts.reset()
	for _, n := range v.functions {
		g, own, part, least := of(n)
		if *part = least; n.noCarrier {
			continue
		}
		most := math.Inf(1)
		if own > 0 {
			most = float64(own)
		}
		v.parts.add(float64(g), most, &n.own)
	}
	shares, i := v.parts.split(float64(amount)), 0
	for _, n := range v.functions {
		if !n.noCarrier {
			_, _, part, _ := of(n)
			*part = max(1, uint64(shares[i]))
			i++
		}
	}
}

// splitter divides an amount statically: guarantees first, by class, then the rest by weight.
type splitter struct {
	usages        []usage
	demand, share []float64
	fill          filler
}

func (s *splitter) reset() { s.usages, s.demand, s.share = s.usages[:0], s.demand[:0], s.share[:0] }

// add adds a participant with its maximum.
func (s *splitter) add(guarantee, most float64, sla *model.SLA) {
	s.usages = append(s.usages, usage{guarantee: guarantee, limit: most, weight: sla.Share(), priority: sla.Priority})
	s.demand, s.share = append(s.demand, math.Inf(1)), append(s.share, 0)
}

// split returns each participant's share; together at most amount. The slice is valid until the next reset.
func (s *splitter) split(amount float64) []float64 {
	left := s.fill.guarantees(amount, s.usages, s.demand, s.share)
	s.fill.rest(max(0, left), s.usages, s.demand, s.share)
	return s.share
}

// wantInside decides a function's limits: its part of its virtual PF's limit as contract, and the current allowance that
// replaces it.
func (n *nic) wantInside(s *limitState) {
	limit, own, part, allow := n.whole.own.Limit, n.own.Limit, n.part, n.allow
	if s.key.Dir == model.Rx {
		limit, own, part, allow = n.whole.own.Receive, n.own.Receive, n.receivePart, n.receive
	}
	s.Want.Contract, s.Want.Rate = part, n.lowered(allow, own)
	if limit.Bits > 0 {
		s.Want.Bits = max(n.least(), uint64(min(allow.Bits, float64(limit.Bits))))
	}
	if limit.Packets > 0 {
		s.Want.Packets = max(1, uint64(min(allow.Packets, float64(limit.Packets))))
	}
}
