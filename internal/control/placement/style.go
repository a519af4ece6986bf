package placement

import "math"

// style is one degree of patience. It runs rent-or-buy on imaginary VFs.
type style struct {
	Tau     float64 `json:"-"` // s; time constant of the mean that is the score
	Habit   float64 `json:"-"` // weight of the long mean in the score, 0..1
	Risk    float64 `json:"-"` // s of the typical rate that must be regretted before a move, beyond what the swap loses
	Account float64 // packets that the imaginary VFs carried, minus the cost of its moves
	Price   float64 // of a VF, on the scale of the scores
	Rent    float64 // of a VF, on the scale of its value in packets/s (learned style only)
	Known   float64 // share of the VMs whose bursts are known (learned style only)
}

// bid is a VM's position in one style's simulation, or for the real VFs.
type bid struct {
	Short, Score float64 // packets/s times weight
	Regret       float64 // packets
	Benefit      float64 // packets that a VF gains from now on (learned style only)
	Held         bool
	order        float64 // sort key in this sample: priority plus score or benefit
}

// score updates the VMs' scores.
func (s *style) score(vms []*vmMem, k int, dt float64) {
	gain := 1 - math.Exp(-dt/s.Tau)
	for _, m := range vms {
		b := &m.Bids[k]
		switch {
		case m.Blind > 0:
		case m.Age <= dt:
			b.Short = m.Rate
		default:
			b.Short += (m.Rate - b.Short) * gain
		}
		b.Score = (1-s.Habit)*b.Short + s.Habit*m.Long
		b.order = b.Score + m.Lift
	}
}

// play updates the account for what the imaginary VFs carried and swaps them where that pays.
func (s *style) play(p *adaptive, k, slots int, dt float64) {
	s.Account *= math.Exp(-dt / max(accountMean, accountSamples*dt))
	if k != learned {
		s.Price = p.price(k, slots)
	} else if !s.aware(p, dt) {
		return
	}
	for _, m := range p.vms {
		if m.Bids[k].Held && m.Blind == 0 {
			s.Account += m.Rate * dt
		}
		m.regret(k, s, dt)
	}
	if k == learned {
		s.learn(p, slots, dt)
	}
	p.fill(k, slots)
	for range p.vms {
		in, out := p.pair(k, nil)
		if !p.pays(in, out, k, s.Risk) {
			return
		}
		s.Account -= swapTime(in.c, out.c)*in.Rate + p.risk*p.Typical
		swap(in, out, k)
	}
}

// regret accumulates what a VM loses by having no VF, or costs others by holding one.
func (m *vmMem) regret(k int, s *style, dt float64) {
	if m.Blind > 0 {
		return
	}
	b := &m.Bids[k]
	gap := ((1-s.Habit)*m.Rate + s.Habit*m.Long + m.Lift - s.Price) * dt
	if b.Held {
		gap = -gap
	}
	b.Regret = max(0, b.Regret+gap)
}

// price is the midpoint between the lowest score that gets a VF and the highest that does not.
func (p *adaptive) price(k, slots int) float64 {
	if slots <= 0 || slots >= len(p.vms) {
		return 0
	}
	p.scratch = p.scratch[:0]
	for _, m := range p.vms {
		p.scratch = append(p.scratch, m.Bids[k].Score+m.Lift)
	}
	last := kth(p.scratch, slots-1)
	next := math.Inf(-1)
	for _, x := range p.scratch[slots:] {
		next = max(next, x)
	}
	return (last + next) / 2
}

// pair finds the best outsider and the worst holder that may give up its VF. A VM whose load is unknown takes no part until it
// has been unknown for forget seconds. Ties go to the VM whose ID comes first, so the order of the candidates does not matter.
func (p *adaptive) pair(k int, ripe func(*vmMem) bool) (in, out *vmMem) {
	most, least := math.Inf(-1), math.Inf(1)
	for _, m := range p.vms {
		if m.Blind > 0 && m.Blind < forget {
			continue
		}
		switch b := &m.Bids[k]; {
		case !b.Held && (b.order > most || b.order == most && m.above(in, k)):
			in, most = m, b.order
		case b.Held && (b.order < least || b.order == least && out.above(m, k)) && (ripe == nil || ripe(m)):
			out, least = m, b.order
		}
	}
	return in, out
}

// above orders by priority and score (or the value of a VF), then by ID.
func (m *vmMem) above(o *vmMem, k int) bool {
	a, b := m.Bids[k].order, o.Bids[k].order
	return a > b || (a == b && m.c.before(o.c) < 0)
}

// byBenefit reports whether bids are ordered by the value of a VF.
func (p *adaptive) byBenefit(k int) bool { return k == learned || k == real && p.Leader == learned }

// pays reports whether a swap pays: the outsider exceeds the holder by more than the margin, and what it gains covers its cost.
func (p *adaptive) pays(in, out *vmMem, k int, risk float64) bool {
	if in == nil || out == nil {
		return false
	}
	if a, b := &in.Bids[k], &out.Bids[k]; !p.byExpectation(in, out, k) && !(a.Score+in.Lift > b.Score+out.Lift+p.margin*b.Score) {
		return false
	}
	gain, cost := p.swapOf(in, out, k, risk)
	return gain >= cost
}

// byExpectation reports whether a swap is judged by the value of a VF to the two VMs.
func (p *adaptive) byExpectation(in, out *vmMem, k int) bool {
	return p.byBenefit(k) && (in.Runs.known() || out.Runs.known())
}

// swapOf returns what a swap gains and what it costs, in packets. It gains the difference in the value of a VF, or the joint regret. It
// costs the benefit lost while nobody uses the VF, the packets lost and the risk, scaled up by the share of this VM's moves that fail.
func (p *adaptive) swapOf(in, out *vmMem, k int, risk float64) (gain, cost float64) {
	a, b := &in.Bids[k], &out.Bids[k]
	if p.byExpectation(in, out, k) {
		gain, cost = a.Benefit+in.Lift-b.Benefit-out.Lift, p.cost(in, out)
	} else {
		gain, cost = a.Regret+b.Regret, (swapTime(in.c, out.c)+p.lost)*a.Score+risk*p.Typical
	}
	return gain, cost / (1 - min(0.9, in.c.Cost.Fail))
}

// swapTime is how long nobody uses the VF, in seconds.
func swapTime(in, out *Candidate) float64 {
	t := plugTime + unplugTime
	if in.Cost.Plug > 0 {
		t += in.Cost.Plug.Seconds() - plugTime
	}
	if out.Cost.Unplug > 0 {
		t += out.Cost.Unplug.Seconds() - unplugTime
	}
	return t
}

func swap(in, out *vmMem, k int) {
	a, b := &in.Bids[k], &out.Bids[k]
	a.Held, b.Held = true, false
	a.Regret, b.Regret = 0, 0
}

// fill gives unassigned VFs to the best outsiders, and takes VFs that no longer exist from the worst holders.
func (p *adaptive) fill(k, slots int) {
	n := 0
	for _, m := range p.vms {
		if m.Bids[k].Held {
			n++
		}
	}
	for n != min(slots, len(p.vms)) {
		var best *vmMem
		for _, m := range p.vms {
			over := n > slots
			if m.Bids[k].Held == over && (best == nil || m.above(best, k) != over) {
				best = m
			}
		}
		b := &best.Bids[k]
		b.Held, b.Regret = !b.Held, 0
		if b.Held {
			n++
		} else {
			n--
		}
	}
}

// kth is the k-th largest of xs, counted from 0, by Hoare's selection; 0 if xs is empty. It reorders xs: larger elements go
// before the result.
func kth(xs []float64, k int) float64 {
	lo, hi := 0, len(xs)-1
	for lo < hi {
		p := xs[(lo+hi)/2]
		i, j := lo, hi
		for i <= j {
			for xs[i] > p {
				i++
			}
			for xs[j] < p {
				j--
			}
			if i <= j {
				xs[i], xs[j] = xs[j], xs[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return xs[k]
		}
	}
	if len(xs) == 0 {
		return 0
	}
	return xs[k]
}
