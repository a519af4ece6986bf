package placement

import (
	"time"

	"sluice/internal/model"
)

// fair is FlexVF's fair strategy (section 4.3): round robin, so that every VM has a VF for the same time (times its weight). In
// every round the VFs go to the VMs that have had the least; between rounds the decision holds.
type fair struct {
	every time.Duration
	Next  time.Time
	Last  time.Time
	Mem   memory[fairMem]
	order ranking
}

type fairMem struct {
	Served float64 // seconds with a VF, divided by the weight
	Chosen bool
}

func (f *fair) copy() Policy {
	c := *f
	c.Mem = f.Mem.copy()
	return &c
}

func newFair(r model.Rules) Policy { return &fair{every: r.Interval} }

// Select implements Policy. It ignores the priority of a VM.
func (f *fair) Select(now time.Time, cands []Candidate, slots int, out []model.Reason) {
	// A newcomer starts level with the least served: it must not catch up on time before its arrival.
	base := f.least()
	mem := f.Mem.sync(cands, func(m *fairMem) { m.Served = base })
	dt := sinceLast(&f.Last, now, 0)
	for i, m := range mem {
		if cands[i].Holds {
			m.Served += dt / cands[i].Weight
		}
	}
	round := !now.Before(f.Next)
	if round {
		f.Next = now.Add(f.every)
	}
	f.rank(cands, mem, round)
	f.order.verdicts(cands, slots, "fair", model.CodeTurn, model.CodeWaiting, out)
	for i, m := range mem {
		m.Chosen = out[i].Hold
		out[i].Score = m.Served
	}
}

// rank orders by least served. Between rounds the chosen VMs stay in front. The duration of plugs makes equal turns differ by
// seconds, so turns are compared in tenths of a round.
func (f *fair) rank(cands []Candidate, mem []*fairMem, round bool) {
	grain := f.every.Seconds() / 10
	f.order = f.order.again(len(cands))
	for k := range f.order {
		i := f.order[k].i
		f.order[k] = ranked{i: i, key: -mem[i].Served, front: !round && mem[i].Chosen}
		if grain > 0 {
			f.order[k].key = -float64(int64(mem[i].Served/grain + 0.5))
		}
	}
	f.order.sort(cands)
}

func (f *fair) least() float64 {
	low, found := 0.0, false
	for _, m := range f.Mem.ptr {
		if !found || m.Served < low {
			low, found = m.Served, true
		}
	}
	return low
}
