package placement

import (
	"time"

	"sluice/internal/model"
)

// activity is FlexVF's activity-based strategy (section 4.3): at every round the N
// VMs with the highest packet rate, averaged since the last round, hold the VFs.
// Between rounds the verdict stands; a VF that falls free goes to the next in rank.
type activity struct {
	every time.Duration
	next  time.Time
	last  time.Time
	mem   memory[activityMem]
	order ranking
}

type activityMem struct {
	packets float64 // seen since the last round
	seconds float64 // of known load since the last round
	score   float64 // verdict of the last round: mean packets/s times weight
	chosen  bool    // it held a VF after the last round, or filled a gap since
	ranked  bool    // it has been through a round
	seen    bool    // its load was known at least once
	since   time.Time
}

// unseenGrace is how long a holder whose load was never known keeps its VF. After a start
// of the daemon the load of a VF is unknown until the guest has been asked twice: ranking
// it as nothing would take the VFs from those who use them most.
const unseenGrace = time.Minute

func newActivity(r model.Rules) Policy { return &activity{every: r.Interval} }

// Select implements Policy.
func (a *activity) Select(now time.Time, cands []Candidate, slots int, out []model.Reason) {
	mem := a.mem.sync(cands, func(m *activityMem) { m.since = now })
	a.sample(now, cands, mem)
	round := !now.Before(a.next) && anyKnown(cands)
	if round {
		a.next = now.Add(a.every)
	}
	a.order = a.order.again(len(cands))
	for k := range a.order {
		i := a.order[k].i
		m := mem[i]
		m.update(&cands[i], round)
		// Between rounds the chosen ones come first: a free VF goes to the best of the rest.
		a.order[k] = ranked{
			i: i, key: m.score,
			front: (!round && m.chosen) || (cands[i].Holds && m.unseen(now)), priority: cands[i].Priority, holds: cands[i].Holds,
		}
	}
	a.order.sort(cands)
	a.order.verdicts(cands, slots, "activity", model.CodeRank, model.CodeOutranked, out)
	for i, m := range mem {
		m.chosen = out[i].Hold
		switch {
		case cands[i].Holds && m.unseen(now):
			out[i].Code, out[i].Detail = model.CodeBlind, "it keeps its VF until its load is known, for a minute at most"
		case !cands[i].Known:
			out[i].Detail = "its load is not known now; ranked by what was last seen"
		}
	}
}

// unseen says whether the load was never known and may still become so.
func (m *activityMem) unseen(now time.Time) bool { return !m.seen && now.Sub(m.since) < unseenGrace }

// sample adds the time since the last call to the means.
func (a *activity) sample(now time.Time, cands []Candidate, mem []*activityMem) {
	dt := 1.0
	if !a.last.IsZero() {
		dt = now.Sub(a.last).Seconds()
	}
	a.last = now
	for i, m := range mem {
		if cands[i].Known && dt > 0 {
			m.packets += cands[i].PPS * dt
			m.seconds += dt
			m.seen = true
		}
	}
}

// update turns the sums into a score at a round; a newcomer is scored at once.
func (m *activityMem) update(c *Candidate, round bool) {
	if (round || !m.ranked) && m.seconds > 0 {
		m.score = m.packets / m.seconds * c.Weight
		m.ranked = m.ranked || round
	}
	if round {
		m.packets, m.seconds = 0, 0
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
