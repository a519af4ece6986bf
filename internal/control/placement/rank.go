package placement

import (
	"cmp"
	"slices"

	"sluice/internal/model"
)

// ranked is a candidate's place in a ranking, ordered by key, larger first.
type ranked struct {
	i        int // index into the candidates
	key      float64
	second   float64 // decides between equal keys, larger first
	back     bool    // after all others
	front    bool    // before all others: between rounds, those that the last round chose
	priority int
	holds    bool
}

// ranking sorts candidates and writes the decisions; it is kept between calls to save allocations.
type ranking []ranked

// sort orders by back, front, priority, keys, holders before outsiders (a tie does not justify a move), then by VM so that the
// order of the input does not matter.
func (r ranking) sort(cands []Candidate) {
	compare := func(a, b ranked) int {
		// Not cmp.Or: it would compare the names every time, which dominated the cost.
		switch {
		case a.back != b.back:
			return trueFirst(b.back, a.back)
		case a.front != b.front:
			return trueFirst(a.front, b.front)
		case a.priority != b.priority:
			return cmp.Compare(b.priority, a.priority)
		case a.key != b.key:
			return cmp.Compare(b.key, a.key)
		case a.second != b.second:
			return cmp.Compare(b.second, a.second)
		case a.holds != b.holds:
			return trueFirst(a.holds, b.holds)
		}
		return cands[a.i].before(&cands[b.i])
	}
	// The new order is nearly the last one, for which insertion sort is fastest.
	shifts := 0
	for n := range r {
		e, at := r[n], n
		for at > 0 && compare(e, r[at-1]) < 0 {
			r[at] = r[at-1]
			at--
		}
		r[at] = e
		if shifts += n - at; shifts > 8*len(r) {
			slices.SortFunc(r, compare)
			return
		}
	}
}

// again returns a ranking of n candidates in the order of the last one, because sorting a nearly sorted list is cheap.
func (r ranking) again(n int) ranking {
	if len(r) == n {
		return r
	}
	r = r[:0]
	for i := range n {
		r = append(r, ranked{i: i})
	}
	return r
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// verdicts gives the slots to the first in the ranking and writes the Reasons: those of holders name the runner-up, those of
// outsiders the one to beat.
func (r ranking) verdicts(cands []Candidate, slots int, policy string, in, notIn model.Code, out []model.Reason) {
	slots = max(0, min(slots, len(r)))
	for n, e := range r {
		why := &out[e.i] // filled in place: copying Reasons took a large part of a tick
		why.VM, why.Code, why.Hold, why.Policy = cands[e.i].VM, notIn, n < slots, policy
		why.Score, why.Rank, why.Slots = e.key, n+1, slots
		if why.Hold {
			why.Code = in
		}
		if why.Hold && slots < len(r) {
			why.Other, why.OtherNm = cands[r[slots].i].VM, cands[r[slots].i].Name
		}
		if !why.Hold && slots > 0 {
			why.Other, why.OtherNm = cands[r[slots-1].i].VM, cands[r[slots-1].i].Name
		}
	}
}
