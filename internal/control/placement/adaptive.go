package placement

import (
	"fmt"
	"math"
	"slices"
	"time"

	"sluice/internal/model"
)

// adaptive is the default policy: rent-or-buy that learns how patient to be, and how long bursts last (learned.go).
//
// Rent-or-buy: the price of a VF is the midpoint between the lowest score that gets one and the highest that does not. An
// outsider whose load exceeds the price regrets the packets it could have had; a holder whose load falls short regrets those it
// keeps from others. When the joint regret of the best outsider and the worst holder reaches the cost of a swap, they swap. So
// no load can make it lose much more by moving than by staying.
//
// The best averaging time and regret threshold depend on the load: bursts of seconds are best ignored, those of minutes best
// followed at once. That cannot be known beforehand, but it can be measured: every style of patience runs on the same load with
// imaginary VFs, and the real ones follow the style with the best account.
//
// Codes: rank, outranked, kept (outranked, but a swap does not pay off yet), budget, blind.
type adaptive struct {
	margin, risk, hold float64
	lost               float64 // seconds of its traffic that a VM loses in a move
	perHour            float64 // budget of moves per VM and hour

	Last       time.Time
	Mem        memory[vmMem]
	Styles     []*style
	Leader     int
	Fixed      int     // index of the best style that does not learn
	Tokens     float64 // moves left in the budget
	Typical    float64 // median of the nonzero rates, averaged
	TypicalAge float64 // s covered by Typical
	cands      []Candidate
	vms        []*vmMem
	order      ranking
	scratch    []float64
}

func (a *adaptive) copy() Policy {
	c := *a
	c.Mem = a.Mem.copy()
	c.Styles = nil
	for _, s := range a.Styles {
		one := *s
		c.Styles = append(c.Styles, &one)
	}
	return &c
}

// vmMem is what adaptive remembers of a VM. Rates are packets/s times weight.
type vmMem struct {
	Seen  time.Time // last time it was a candidate
	Had   bool      // it had a VF then
	Since time.Time // when it got it
	Blind float64   // seconds since its load was last known
	Rate  float64   // last known
	Long  float64   // mean over the last longMemory seconds, or over as many as there are
	Age   float64   // seconds covered by Long
	Lift  float64   // offset that puts priorities above all rates
	cost  float64   // packets: cost of plugging a VF into it
	Bids  [stylesMax + 1]bid
	c     *Candidate
	Runs  runs // last, because most loops do not read it
}

const (
	stylesMax      = 3
	learned        = stylesMax - 1
	real           = stylesMax  // the bid for a real VF
	longMemory     = 300.0      // s; FlexVF's period: long enough to tell VMs apart, short enough to follow the daily cycle
	forget         = 10 * 60    // s after which a VM that returns, or whose load stays unknown, is treated as new
	accountMean    = 600.0      // s; time constant of the styles' accounts: covers several of the slow style's moves,
	accountSamples = 120        // and at least so many samples
	inertia        = 3.0        // lead in moves' risk that a style needs: noise must not change styles
	priorityGap    = 1e10       // packets/s: more than any VM has
	plugTime       = 640 * 1e-3 // s, FlexVF's Table 2; used until moves have been measured here
	unplugTime     = 56 * 1e-3
)

var adaptiveParams = params{
	// Slightly more than the oracle's 10, for fewer moves.
	{
		Name: "risk_s", Unit: "s", Default: 12, Max: 3600,
		Doc: "the assumed risk of a move, in seconds of the median nonzero rate: a VM whose bursts are known must gain more than that by a " +
			"move, and styles are compared by it. Raise it if moves disturb your guests, lower it if they do not",
	},
	// The median of docs/appendix/measurements.md.
	{
		Name: "lost_s", Unit: "s", Default: 0.05, Max: 60,
		Doc: "how much of its traffic a VM loses in a move. `scripts/measure loss` measures it; the default is the lab's. " +
			"Raise it if yours is higher",
	},
	// Twice the noise of +-3 % loads, smoothed.
	{
		Name: "margin", Unit: "share", Default: 0.05, Max: 10,
		Doc: "by how much the score of a VM without a VF must exceed a holder's. Raise it if rates fluctuate by more than a few percent and " +
			"VMs of similar load keep changing places",
	},
	{
		Name: "hold_s", Unit: "s", Default: 5, Max: 3600,
		Doc: "how long a VM keeps its VF at least. Raise it if guests take long to settle after a move",
	},
	// Loads that change every two minutes need 20 to 25; a larger budget helped none.
	{
		Name: "moves_per_hour", Unit: "swaps per VM and hour", Default: 30, Min: 0.1, Max: 3600,
		Doc: "the budget, for all VMs together; up to a quarter of the VMs at once. Lower it to bound the moves whatever the load does",
	},
}

var styleNames = [stylesMax]string{"quick", "patient", "learned"}

func newAdaptive(r model.Rules) Policy {
	p := &adaptive{
		margin: adaptiveParams.of(r, "margin"), risk: adaptiveParams.of(r, "risk_s"), lost: adaptiveParams.of(r, "lost_s"),
		hold: adaptiveParams.of(r, "hold_s"), perHour: adaptiveParams.of(r, "moves_per_hour"),
	}
	p.Styles = []*style{
		{Tau: 3, Risk: 5},               // loads that last for minutes: move at once
		{Tau: 10, Habit: 0.7, Risk: 30}, // bursts: follow the long mean
		{},                              // bursts whose lengths are known
	}
	p.Tokens = math.MaxFloat64 // until the number of VMs is known
	return p
}

// check rejects state read from a recording that adaptive cannot have written.
func (p *adaptive) check() error {
	for id, m := range p.Mem.all {
		if !m.Runs.sound() {
			return fmt.Errorf("its record of the bursts of NIC %s is invalid", id)
		}
	}
	if len(p.Styles) != stylesMax || slices.Contains(p.Styles, nil) {
		return fmt.Errorf("it has %d styles, or empty ones; want %d", len(p.Styles), stylesMax)
	}
	if p.Leader < 0 || p.Leader >= stylesMax || p.Fixed < 0 || p.Fixed >= learned {
		return fmt.Errorf("style %d leads, and %d is the best of those that do not learn: there are %d", p.Leader, p.Fixed, stylesMax)
	}
	return nil
}

// Select implements Policy.
func (p *adaptive) Select(now time.Time, cands []Candidate, slots int, out []model.Reason) {
	dt := min(60, sinceLast(&p.Last, now, 1)) // a longer gap carries no information about its load
	p.cands, p.vms = cands, p.Mem.sync(cands, func(*vmMem) {})
	p.sample(now, dt)
	for k, s := range p.Styles {
		if k != learned {
			s.score(p.vms, k, dt)
		}
		s.play(p, k, slots, dt)
	}
	p.lead()
	n := float64(len(cands))
	p.Tokens = min(p.Tokens+p.perHour/3600*n*dt, max(4, n/4)) // the burst: a quarter of the VMs at once
	s := p.Styles[p.Leader]
	for _, m := range p.vms {
		b, l := &m.Bids[real], &m.Bids[p.Leader]
		b.Score, b.Benefit, b.order = l.Score, l.Benefit, l.order
		m.regret(real, s, dt)
		if p.Leader == learned && !m.Runs.known() && m.Blind == 0 {
			p.value(m, b, s.Rent, dt) // by what it regrets with real VFs
		}
	}
	p.fill(real, slots)
	broke := p.trade(now, s)
	p.write(slots, broke, out)
}

// weigh tells a Reason what a swap of a VM that is kept where it is would gain and cost: with the best outsider, or with the holder that
// gains least.
func (p *adaptive) weigh(m, best, worst *vmMem, risk float64, why *model.Reason) {
	in, out := m, worst
	if m.Bids[real].Held {
		in, out = best, m
	}
	if in == nil || out == nil {
		return
	}
	why.Other, why.OtherNm = in.c.VM, in.c.Name
	if in == m {
		why.Other, why.OtherNm = out.c.VM, out.c.Name
	}
	if gain, cost := p.swapOf(in, out, real, risk); gain < cost && math.Abs(gain) < priorityGap/2 {
		why.Gain, why.Cost = max(0, gain), cost
	}
}

// sample takes in the current loads.
func (p *adaptive) sample(now time.Time, dt float64) {
	p.scratch = p.scratch[:0]
	for i, m := range p.vms {
		c := &p.cands[i]
		if !m.Seen.IsZero() && now.Sub(m.Seen).Seconds() > forget {
			*m = vmMem{}
		}
		m.c, m.Lift, m.Blind = c, priorityGap*float64(c.Priority), m.Blind+dt
		if c.Known {
			away := 0.0 // time under way, when it is not a candidate
			if !m.Seen.IsZero() {
				away = max(0, now.Sub(m.Seen).Seconds()-dt)
			}
			m.Runs.see(c.PPS*c.Weight, dt, m.Blind-dt+away)
			m.Rate, m.Blind = c.PPS*c.Weight, 0
			m.Age = min(m.Age+max(dt, 1e-3), longMemory)
			m.Long += (m.Rate - m.Long) * min(1, max(dt, 1e-3)/m.Age)
		}
		if m.Rate > 0 {
			p.scratch = append(p.scratch, m.Rate)
		}
		if c.Holds && !m.Had {
			m.Since = now
		}
		m.Had, m.Bids[real].Held, m.Seen = c.Holds, c.Holds, now
	}
	p.typically(kth(p.scratch, len(p.scratch)/2), dt)
}

// trade swaps real VFs while that pays and the budget lasts; it reports whether the budget ran out.
func (p *adaptive) trade(now time.Time, s *style) (broke bool) {
	ripe := func(m *vmMem) bool { return now.Sub(m.Since).Seconds() >= p.hold }
	for range p.vms {
		in, out := p.pair(real, ripe)
		if !p.pays(in, out, real, s.Risk) {
			return false
		}
		if p.Tokens < 1 {
			return true
		}
		p.Tokens--
		swap(in, out, real)
	}
	return false
}

// write ranks by real holding and by the leading style's order, and fills in the Reasons.
func (p *adaptive) write(slots int, broke bool, out []model.Reason) {
	p.order = p.order.again(len(p.vms))
	for n := range p.order {
		e := &p.order[n]
		b := &p.vms[e.i].Bids[real]
		e.key, e.front, e.priority, e.holds = b.order, b.Held, p.cands[e.i].Priority, p.cands[e.i].Holds
	}
	p.order.sort(p.cands)
	p.order.verdicts(p.cands, slots, "adaptive", model.CodeRank, model.CodeOutranked, out)
	in, worst := p.pair(real, nil)
	for i, m := range p.vms {
		b, why := &m.Bids[real], &out[i]
		why.Style = styleNames[p.Leader]
		why.Hold, why.Regret, why.Bursts, why.Score = b.Held, b.Regret, m.Runs.learned(), b.Score
		s := p.Styles[p.Leader]
		price := s.Price
		if p.Leader == learned {
			price = s.Rent + m.Lift
		}
		wants := b.Score+m.Lift > price
		if p.Leader == learned && m.Runs.known() { // it decides by the expected load, of which the current rate is the known part
			why.Score, why.Regret, why.Style = m.Rate, 0, m.expects()
			wants = b.Benefit >= m.cost || b.Held && b.Benefit > 0
		}
		if net := price - m.Lift; math.Abs(net) < priorityGap/2 {
			why.Price = net
		}
		switch {
		case m.Blind > 0:
			why.Code, why.Detail = model.CodeBlind, "it keeps its place until its load is known again"
		case wants == b.Held || len(p.vms) <= slots:
		case broke:
			why.Code = model.CodeBudget
		default:
			why.Code = model.CodeKept
			p.weigh(m, in, worst, s.Risk, why)
		}
	}
}
