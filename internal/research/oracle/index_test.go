package oracle

import "slices"

// outlook is the prospects of all VMs at one price of a VF.
type outlook struct {
	price float64
	at    [][]prospect // by tick, then by VM
	most  float64      // packets less charges: what all VFs cost plus what VMs gain over it
}

// pay finds the prospects at a price of a VF, in packets/s.
//
// Whatever the price, nobody who does not know the future gains more than most on average: a policy
// is what VMs do by themselves, less freely, and pays for all VFs at most as much as most
// counts (Lagrangian relaxation).
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

// market are the outlooks at several prices of a VF.
type market struct {
	usual  *outlook   // most is least: VMs that each do what is best for themselves want as many VFs on average as there are
	prices []*outlook // rising, the usual one among them
}

// lookAhead finds the usual price, and looks ahead at prices around it. None is above highest.
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

// between writes the prospects at a tick and any price.
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

// clearing is the price at which as many VMs want a VF at a tick as there are VFs. It
// writes the prospects at some price.
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

// wants says whether a VM is better off with a VF, which is free of charge if it has one.
func (p prospect) wants(free bool) bool { return p.lead > 0 && (free || p.lead > p.plug) }

// choose gives the VFs to the VMs with the best index: the lead, less a plug for those who have
// no VF yet. Equal ones stay as they are.
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

// byIndex plays rates with the index, by Fluid's rules. The price is half way between its mean over
// the last minutes and that of the moment: what is dear now does not stay so for ever.
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

// byItself has each VM do what is best for itself, and pay: on average that gains most.
// Next to what others gain of the same rates it says more than most does.
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

// play plays rates with those whom decide chooses to hold a VF.
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
