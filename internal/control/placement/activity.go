package placement

import (
	"time"

	"sluice/internal/model"
)

// activity is FlexVF's activity-based strategy (section 4.3): in every round the N VMs with the highest packet rate, averaged
// since the last round, get the VFs. Between rounds the decision holds; a VF that becomes free goes to the next in rank.
type activity struct {
	every time.Duration
	Next  time.Time
	Last  time.Time
	Mem   memory[activityMem]
	order ranking
}

type activityMem struct {
	Packets float64   // counted since the last round
	Seconds float64   // of known load since the last round
	Score   float64   // result of the last round: mean packets/s times weight
	Chosen  bool      // it held a VF after the last round, or has filled a gap since
	Ranked  bool      // it has taken part in a round
	Told    time.Time // when its load was last known
	Seen    bool      // its load was known at least once
	Since   time.Time
}

// unseenGrace is how long a holder whose load is unknown keeps its VF, or its rank. After a start of the daemon and after each
// plug the load of a VF is unknown until the guest has been polled twice: ranking it as zero would take the VFs from those who
// use them most.
const unseenGrace = time.Minute

func (a *activity) copy() Policy {
	c := *a
	c.Mem = a.Mem.copy()
	return &c
}

func newActivity(r model.Rules) Policy { return &activity{every: r.Interval} }

// Select implements Policy.
func (a *activity) Select(now time.Time, cands []Candidate, slots int, out []model.Reason) {
	mem := a.Mem.sync(cands, func(m *activityMem) { m.Since = now })
	a.sample(now, cands, mem)
	round := !now.Before(a.Next) && anyKnown(cands)
	if round {
		a.Next = now.Add(a.every)
	}
	a.order = a.order.again(len(cands))
	for k := range a.order {
		i := a.order[k].i
		m := mem[i]
		m.update(now, &cands[i], round)
		// Between rounds the chosen VMs come first: a free VF goes to the best of the rest.
		a.order[k] = ranked{
			i: i, key: m.Score,
			front: (!round && m.Chosen) || (cands[i].Holds && m.unseen(now)), priority: cands[i].Priority, holds: cands[i].Holds,
		}
	}
	a.order.sort(cands)
	a.order.verdicts(cands, slots, "activity", model.CodeRank, model.CodeOutranked, out)
	for i, m := range mem {
		m.Chosen = out[i].Hold
		switch {
		case cands[i].Holds && m.unseen(now):
			out[i].Code, out[i].Detail = model.CodeBlind, "it keeps its VF until its load is known, for at most a minute"
		case !cands[i].Known:
			out[i].Detail = "its load is not known now; it is ranked by its last known load, which is halved in each round after a minute"
		}
	}
}

// unseen reports whether the load has never been known but is still within the grace period.
func (m *activityMem) unseen(now time.Time) bool { return !m.Seen && now.Sub(m.Since) < unseenGrace }

// sample adds the time since the last call to the means.
func (a *activity) sample(now time.Time, cands []Candidate, mem []*activityMem) {
	dt := sinceLast(&a.Last, now, 1)
	for i, m := range mem {
		if cands[i].Known && dt > 0 {
			m.Packets += cands[i].PPS * dt
			m.Seconds += dt
			m.Seen, m.Told = true, now
		}
	}
}

// update turns the sums into a score in a round; a newcomer is scored at once. The score of a VM whose load has been unknown
// for long halves with each round: a VM whose agent is dead must not keep a VF for ever.
func (m *activityMem) update(now time.Time, c *Candidate, round bool) {
	switch {
	case (round || !m.Ranked) && m.Seconds > 0:
		m.Score = m.Packets / m.Seconds * c.Weight
		m.Ranked = m.Ranked || round
	case round && now.Sub(m.Told) > unseenGrace:
		m.Score /= 2
	}
	if round {
		m.Packets, m.Seconds = 0, 0
	}
}

func anyKnown(cands []Candidate) bool {
	for i := range cands {
		if cands[i].Known {
			return true
		}
	}
	return false
}
