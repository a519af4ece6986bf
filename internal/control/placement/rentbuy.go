package placement

import (
	"math"
	"slices"
	"time"

	"sluice/internal/model"
)

// rentBuy is the published baseline for adaptive: plain rent-or-buy. A VM's score is the exponential mean of its packet rate.
// The price of a VF is the midpoint between the lowest score that gets one and the highest that does not. Outsiders accumulate
// by how much they exceed the price, holders by how much they fall short; two whose joint loss reaches the cost of a swap are
// swapped. Priorities and measured costs are ignored.
type rentBuy struct {
	Last   time.Time
	Tokens float64
	Mem    memory[rentMem]
	order  ranking
	sorted []float64
	rates  []float64
}

type rentMem struct {
	Rate   float64 // mean, packets/s times weight
	Regret float64 // packets
	Seen   bool
}

// The published parameters of rent-or-buy.
const (
	rentTau    = 10.0  // seconds
	rentMargin = 1.05  // factor by which an outsider must be better
	rentSwap   = 0.696 // seconds of the receiver's benefit that a swap loses
	rentRisk   = 30.0  // seconds of the median rate that a plug puts at risk
	rentFill   = 0.5   // plugs/s
	rentBurst  = 4.0   // plugs
)

func (p *rentBuy) copy() Policy {
	c := *p
	c.Mem = p.Mem.copy()
	return &c
}

func newRentBuy(model.Rules) Policy { return &rentBuy{Tokens: rentBurst} }

// Select implements Policy.
func (p *rentBuy) Select(now time.Time, cands []Candidate, slots int, out []model.Reason) {
	mem := p.Mem.sync(cands, func(*rentMem) {})
	dt := sinceLast(&p.Last, now, 1)
	p.Tokens = min(rentBurst, p.Tokens+rentFill*dt)
	keep := math.Exp(-dt / rentTau)
	p.order, p.rates = p.order[:0], p.rates[:0]
	for i, m := range mem {
		p.rates = append(p.rates, cands[i].PPS)
		x := cands[i].PPS * cands[i].Weight
		switch {
		case !cands[i].Known:
		case !m.Seen:
			m.Rate, m.Seen = x, true
		default:
			m.Rate += (x - m.Rate) * (1 - keep)
		}
		p.order = append(p.order, ranked{i: i, key: m.Rate, front: cands[i].Holds, holds: cands[i].Holds})
	}
	price := p.price(mem, slots)
	for i, m := range mem {
		gap := (cands[i].PPS*cands[i].Weight - price) * dt
		if cands[i].Holds {
			gap = -gap
		}
		if cands[i].Known {
			m.Regret = max(0, m.Regret+gap)
		}
	}
	p.order.sort(cands)
	slices.Sort(p.rates)
	slices.Reverse(p.rates)
	p.swap(mem, slots)
	p.order.verdicts(cands, slots, "rentbuy", model.CodeRank, model.CodeOutranked, out)
	for i, m := range mem {
		out[i].Price, out[i].Regret = price, m.Regret
	}
}

// price is the mean of the N-th and (N+1)-th largest score.
func (p *rentBuy) price(mem []*rentMem, slots int) float64 {
	p.sorted = p.sorted[:0]
	for _, m := range mem {
		p.sorted = append(p.sorted, m.Rate)
	}
	return between(p.sorted, slots)
}

// swap exchanges the worst holder for the best outsider while that pays. The order has the holders in front, and each part is
// ordered by score.
func (p *rentBuy) swap(mem []*rentMem, slots int) {
	risk := rentRisk * median(p.rates)
	for in, a := slots-1, slots; in >= 0 && a < len(p.order) && p.Tokens >= 1; in, a = in-1, a+1 {
		b, o := mem[p.order[in].i], mem[p.order[a].i]
		if !(o.Rate > rentMargin*b.Rate && b.Regret+o.Regret >= rentSwap*o.Rate+risk) {
			return
		}
		b.Regret, o.Regret = 0, 0
		p.order[in], p.order[a] = p.order[a], p.order[in]
		p.Tokens--
	}
}
