package oracle

import "slices"

// outlook is the prospects of all VMs at one price of a VF.
type outlook struct {
	price float64
	at    [][]prospect // by tick, then by VM
	most  float64      // packets less charges: what all VFs cost plus what VMs gain beyond that
}

// pay computes the prospects at a price of a VF, in packets/s.
//
// Whatever the price, no policy without knowledge of the future gains more than most on average (Lagrangian relaxation): each VM does at
// least as well when it decides for itself, and no policy uses more VFs than most pays for.
func pay(price float64, all []known, vms, ticks, vfs int, c Charge) *outlook {
	o := &outlook{price: price, at: make([][]prospect, ticks), most: price * float64(vfs*ticks)}
	for t := range o.at {
		o.at[t] = make([]prospect, vms)
	}
	for _, k := range all {
		o.most += k.solve(price, c, func(t, vm int, p prospect) { o.at[t][vm] = p })
	}
	return o
}

// market holds the outlooks at several prices of a VF.
type market struct {
	usual  *outlook   // has the least most: VMs that decide for themselves want as many VFs on average as there are
	prices []*outlook // in rising order, with the usual one
}

// lookAhead finds the usual price, which is at most highest, and the outlooks at prices around it.
func lookAhead(all []known, vms, ticks, vfs int, c Charge, highest float64) *market {
	at := func(price float64) *outlook { return pay(price, all, vms, ticks, vfs, c) }
	lo, hi := 0.0, highest
	for range 14 { // most is convex in the price
		a, b := lo+(hi-lo)*0.4, lo+(hi-lo)*0.6
		if at(a).most <= at(b).most {
			hi = b
		} else {
			lo = a
		}
	}
	m := &market{usual: at((lo + hi) / 2)}
	for _, share := range []float64{0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 5} {
		m.prices = append(m.prices, at(share*m.usual.price))
	}
	return m
}

// between interpolates the prospects at a tick for any price.
func (m *market) between(t int, price float64, to []prospect) {
	k := 1
	for k < len(m.prices)-1 && m.prices[k].price < price {
		k++
	}
	a, b := m.prices[k-1], m.prices[k]
	share := min(1, max(0, (price-a.price)/(b.price-a.price)))
	for i, p := range a.at[t] {
		to[i] = prospect{lead: p.lead + share*(b.at[t][i].lead-p.lead), plug: p.plug}
	}
}

// clearing returns the price at which as many VMs want a VF at a tick as there are VFs. It overwrites to.
func (m *market) clearing(t int, held []bool, vfs int, to []prospect) float64 {
	lo, hi := 0.0, m.prices[len(m.prices)-1].price
	for range 20 {
		price := (lo + hi) / 2
		m.between(t, price, to)
		n := 0
		for i, p := range to {
			if p.wants(held[i] || t == 0) {
				n++
			}
		}
		if n > vfs {
			lo = price
		} else {
			hi = price
		}
	}
	return hi
}

// wants reports whether a VM is better off with a VF, for which it pays no plug if it is free.
func (p prospect) wants(free bool) bool { return p.lead > 0 && (free || p.lead > p.plug) }

// choose gives the VFs to the VMs with the best index: the lead, less a plug for those without a VF. Among equals, holders keep theirs.
func choose(at []prospect, held []bool, vfs int, start bool) {
	index := make([]float64, len(at))
	order := make([]int, len(at))
	for i, p := range at {
		order[i], index[i] = i, p.lead
		if !held[i] && !start {
			index[i] -= p.plug
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case index[a] > index[b], index[a] == index[b] && held[a] && !held[b]:
			return -1
		case index[a] == index[b] && held[a] == held[b]:
			return 0
		}
		return 1
	})
	for k, i := range order {
		held[i] = k < vfs
	}
}

// byIndex plays rates with the index, by Fluid's rules. The price is midway between its mean over the last minutes and the present one,
// since a high price does not last.
func (m *market) byIndex(r *Rates, vfs int, c Charge) Figures {
	const memory = 120 // ticks
	mean := m.usual.price
	now := make([]prospect, len(r.VMs))
	return play(r, c, func(t int, held []bool) {
		price := m.clearing(t, held, vfs, now)
		mean += (price - mean) / memory
		m.between(t, (mean+price)/2, now)
		choose(now, held, vfs, t == 0)
	})
}

// byItself lets each VM do what is best for itself, and pay: on average this gains most. Played on the same rates as others, it is a better
// comparison than most.
func (o *outlook) byItself(r *Rates, vfs int, c Charge) Figures {
	used := 0
	f := play(r, c, func(t int, held []bool) {
		for i, p := range o.at[t] {
			if held[i] = p.wants(held[i] || t == 0); held[i] {
				used++
			}
		}
	})
	f.Net += o.price * float64(vfs*len(o.at)-used) * r.Step.Seconds()
	return f
}

// play plays rates with the holders that decide chooses.
func play(r *Rates, c Charge, decide func(t int, held []bool)) Figures {
	var f Figures
	held, before := make([]bool, len(r.VMs)), make([]bool, len(r.VMs))
	for t, pps := range r.PPS {
		copy(before, held)
		decide(t, held)
		for i, x := range pps {
			if !held[i] {
				continue
			}
			f.Benefit += x * r.Step.Seconds()
			if !before[i] && t > 0 {
				f.Moves++
				f.Benefit -= c.Swap * x
			}
		}
	}
	f.Net = f.Benefit - c.Risk*float64(f.Moves)
	return f
}
