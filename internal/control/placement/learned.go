package placement

import "math"

// The learned style knows how long bursts last. A VF has a price in packets/s at which demand equals the number of VFs (the
// multiplier of a restless bandit's relaxed constraint: Whittle, J. Appl. Prob. 25A, 1988, section 3). The value of a VF to a
// VM at that price follows from the lengths of its bursts, and VFs change hands where the difference exceeds the cost of a
// move. A VM whose bursts are unknown is treated as the best of the other styles treats it, and the learned style leads only
// while its account is ahead of theirs, or hardly behind. So correct predictions are followed at once, and the cost of wrong
// ones is bounded by what it takes to detect them: the consistency and robustness of Purohit, Svitkina and Kumar, Improving
// online algorithms via ML predictions, NeurIPS 2018, section 2.
const (
	priceGain  = 0.06 // relative growth of the price per second while twice as many VMs want a VF as there are VFs
	priceTau   = 20.0 // s; time constant with which the price tracks the median bid while few bursts are known
	horizon    = 30.0 // s that a VM whose bursts are unknown is assumed to stay as it is
	lagSamples = 1.5  // delay in samples of a decision that waits for the load to change
	knownShare = 0.25 // share of the VMs whose bursts must be known before the style can lead
	ahead      = 5e-3 // relative lead that its account must have,
	trust      = 3.0  // less the risk of so many moves
	freeTime   = 5.0  // s within which another VF becomes free at that price: no VF is worth more than its gain until then
)

// aware reports whether the bursts of enough VMs are known for the style to play. When that first becomes true, the style
// starts from the state of the best of the others.
func (s *style) aware(p *adaptive, dt float64) bool {
	f, known, was := p.Styles[p.Fixed], 0, s.Known >= knownShare
	for _, m := range p.vms {
		if m.Runs.known() {
			known++
		}
	}
	s.Known = float64(known) / float64(max(1, len(p.vms)))
	s.Habit, s.Risk, s.Price = f.Habit, f.Risk, f.Price
	if s.Known < knownShare {
		median := math.Remainder(s.Price, priorityGap/2) // without the priority, or the midpoint between two priorities
		s.Rent = max(0, s.Rent+min(1, dt/priceTau)*(median-s.Rent))
		return false
	}
	if !was {
		s.Account = f.Account
		for _, m := range p.vms {
			m.Bids[learned].Held, m.Bids[learned].Regret = m.Bids[p.Fixed].Held, m.Bids[p.Fixed].Regret
		}
	}
	return true
}

// learn computes the value of a VF to each VM, and the price.
func (s *style) learn(p *adaptive, slots int, dt float64) {
	wants := 0
	for _, m := range p.vms {
		if m.Blind > 0 {
			continue
		}
		b := &m.Bids[learned]
		b.Score = m.Bids[p.Fixed].Score
		m.cost = p.cost(m, m)
		p.value(m, b, s.Rent, dt)
		if m.Runs.known() && (b.Benefit > m.cost || b.Held && b.Benefit > 0) || !m.Runs.known() && b.Score > s.Rent {
			wants++
		}
	}
	excess := float64(wants-slots) / float64(max(1, slots))
	s.Rent = max(0, s.Rent+min(1, priceGain*dt)*excess*(s.Rent+0.1*p.Typical))
}

// value sets a bid's value of a VF, in packets.
func (p *adaptive) value(m *vmMem, b *bid, price, dt float64) {
	gain := b.Score - price
	switch {
	case m.Runs.known():
		b.Benefit = m.Runs.benefit(m.Rate, price, m.cost, lagSamples*dt, dt)
		b.Benefit = min(b.Benefit, m.cost+max(0, m.Rate-price)*max(freeTime, dt))
	case !m.Runs.Two && gain > 0: // assume it lasts as long again
		b.Benefit = min(gain*max(horizon, m.Runs.Age), m.cost+gain*max(freeTime, dt))
	case !m.Runs.Two: // it can be given up as soon as another VM wants it
		b.Benefit = gain * max(freeTime, dt)
	case b.Held == (gain > 0):
		b.Benefit = gain * horizon
	case b.Held:
		b.Benefit = -b.Regret
	default:
		b.Benefit = b.Regret
	}
	b.Benefit = min(max(b.Benefit, -priorityGap/4), priorityGap/4) // no benefit outweighs a priority
	b.order = b.Benefit + m.Lift
}

// cost is the cost in packets of moving a VF from out to in while in is busy.
func (p *adaptive) cost(in, out *vmMem) float64 {
	return (swapTime(in.c, out.c)+p.lost)*max(in.Rate, in.Runs.High) + p.risk*p.Typical
}

// lead selects the style with the best account: the learned one, as long as its account is not behind and it knows enough
// bursts.
func (p *adaptive) lead() {
	move := p.risk * p.Typical
	for k, s := range p.Styles[:learned] {
		if s.Account > p.Styles[p.Fixed].Account+inertia*move {
			p.Fixed = k
		}
	}
	p.Leader = p.Fixed
	if l := p.Styles[learned]; l.Known >= knownShare && l.Account > p.Styles[p.Fixed].Account*(1+ahead)-trust*move {
		p.Leader = learned
	}
}

// typically updates the typical rate: the median of the nonzero rates, averaged over the last longMemory seconds because bursts
// make it jump.
func (p *adaptive) typically(now, dt float64) {
	p.TypicalAge = min(p.TypicalAge+max(dt, 1e-3), longMemory)
	p.Typical += (now - p.Typical) * min(1, max(dt, 1e-3)/p.TypicalAge)
}

// expects describes the expected load of a VM whose bursts are known.
func (m *vmMem) expects() string {
	b := &m.Bids[real]
	switch {
	case m.Runs.Is == highState && b.Benefit > 0:
		return "learned: in a burst"
	case m.Runs.Is == highState:
		return "learned: its burst is nearly over or not worth a VF"
	case b.Benefit >= m.cost:
		return "learned: a burst is near"
	case b.Benefit > 0:
		return "learned: between bursts that are not far apart"
	}
	return "learned: between bursts"
}
