package placement

import "math"

// style is one way of being patient. It plays rent-or-buy with imaginary VFs.
type style struct {
	Tau     float64 `json:"-"` // s of the mean that is the score
	Habit   float64 `json:"-"` // share of the long mean in it, 0..1
	Risk    float64 `json:"-"` // s of the typical rate to regret before a move, beyond the swap's loss
	Account float64 // packets that imaginary VFs carried, minus what its moves cost
	Price   float64 // of a VF by its scores
	Rent    float64 // of a VF by what it is worth, packets/s (the learned style)
	Known   float64 // share of the VMs whose bursts are known (likewise)
}

// bid is a VM's standing in one style's play, or for the real VFs.
type bid struct {
	Short, Score float64 // packets/s times weight
	Regret       float64 // packets
	Benefit      float64 // packets that a VF brings from now on (the learned style)
	Held         bool
	order        float64 // by which VMs are ordered in this sample: priority, and score or benefit
}

// score brings the VMs' scores up to date.
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

// play lets the imaginary VFs carry and change hands.
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

// regret adds up what a VM has, or costs others, by being where it is.
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

// price is half way between the last score that gets a VF and the first that does not.
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

// pair finds the best outsider and the worst holder that may give up its VF. A VM whose
// load is unknown takes no part, unless that goes on for too long. Ties go to the VM
// whose ID comes first, so that the order of the candidates does not matter.
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

// above orders by priority and score, or what a VF is worth, then by ID.
func (m *vmMem) above(o *vmMem, k int) bool {
	a, b := m.Bids[k].order, o.Bids[k].order
	return a > b || (a == b && m.c.before(o.c) < 0)
}

// byBenefit says whether bids go by what a VF is worth.
func (p *adaptive) byBenefit(k int) bool { return k == learned || k == real && p.Leader == learned }

// pays says whether a swap pays: the outsider is better by more than the margin, and
// both together have lost what the move costs here: the benefit while nobody uses the
// VF, the packets it loses, the risk, and more the more often moves of the VM fail.
func (p *adaptive) pays(in, out *vmMem, k int, risk float64) bool {
	if in == nil || out == nil {
		return false
	}
	if p.byBenefit(k) && (in.Runs.known() || out.Runs.known()) {
		return p.gainful(in, out, k)
	}
	a, b := &in.Bids[k], &out.Bids[k]
	if !(a.Score+in.Lift > b.Score+out.Lift+p.margin*b.Score) {
		return false
	}
	cost := (swapTime(in.c, out.c)+p.lost)*a.Score + risk*p.Typical
	return a.Regret+b.Regret >= cost/(1-min(0.9, in.c.Cost.Fail))
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

// fill gives VFs that nobody has to the best outsiders, and takes those that are not
// there any more from the worst holders.
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

// kth is the k-th largest of xs, counted from 0. It reorders xs: larger ones go before
// it. Hoare's selection; 0 for none.
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
