package placement

import (
	"math"
	"slices"

	"sluice/internal/model"
)

// runs is what is known of a load that alternates between high and low: the two levels, and how long it stays at each.
type runs struct {
	High, Low float64 // packets/s times weight; equal while only one level has been seen
	Is        int8    // low or high
	Two       bool    // there are two levels
	Whole     bool    // the current stretch was observed from its start
	Age       float64 // s that the current stretch has lasted
	Len       [2]lengths
	Benefit   [2]float64 // packets: value of a VF at the start of a stretch
}

const (
	lowState, highState = 0, 1
	apart               = 0.7 // there are two levels if the lower is less than this share of the higher
	levelMean           = 5.0 // s; time constant of the mean of a level
	crestMean           = 1.5 // s; time constant while the rate exceeds the level outwards
	refresh             = 8   // s after which the benefit of the coming stretch is recomputed: the price changes slowly
	unseenMax           = 30  // s; a move takes less
	seenMost            = 1e9 // more bursts than there are seconds in the life of a host
)

// see records a rate that holds for dt seconds, after unseen seconds in which the rate was unknown: a short gap is assumed to
// have continued the last rate.
func (r *runs) see(rate, dt, unseen float64) {
	switch {
	case r.Age == 0:
		r.High, r.Low = rate, rate
	case unseen > unseenMax:
		r.Age, r.Whole = 0, false
	default:
		r.Age += unseen
	}
	is := r.Is
	switch {
	case r.Two && r.Low > apart*r.High:
		r.Two = false // the levels have converged
	case r.Two && rate > (r.High+r.Low)/2:
		is = highState
	case r.Two:
		is = lowState
	case rate < apart*r.High:
		r.Two, r.Is, r.Low, is = true, highState, rate, lowState
	case r.High < apart*rate:
		r.Two, r.Is, r.High, is = true, lowState, rate, highState
	}
	if is != r.Is {
		if r.Whole && r.Age > 0 {
			r.Len[r.Is].add(r.Age)
		}
		r.Is, r.Age, r.Whole = is, 0, unseen <= unseenMax
	}
	r.Age += dt
	r.level(rate, dt)
}

// level updates the mean of the current level.
func (r *runs) level(rate, dt float64) {
	tau := levelMean
	switch {
	case !r.Two:
		r.High += (rate - r.High) * min(1, dt/tau)
		r.Low = r.High
	case r.Is == highState:
		if rate > r.High {
			tau = crestMean
		}
		r.High += (rate - r.High) * min(1, dt/tau)
	default:
		if rate < r.Low {
			tau = crestMean
		}
		r.Low += (rate - r.Low) * min(1, dt/tau)
	}
}

// sound reports whether values read from a recording are valid.
func (r *runs) sound() bool {
	for i := range r.Len {
		if n := r.Len[i].Seen; n < 0 || n > seenMost || slices.ContainsFunc(r.Len[i].kept(), func(s float32) bool { return !(s > 0) }) {
			return false
		}
	}
	return r.Is == lowState || r.Is == highState
}

// known reports whether a whole stretch of either kind was observed.
func (r *runs) known() bool { return r.Two && r.Len[lowState].Seen > 0 && r.Len[highState].Seen > 0 }

// learned is the summary for the operator.
func (r *runs) learned() model.Bursts {
	if !r.known() {
		return model.Bursts{}
	}
	return model.Bursts{High: r.Len[highState].mean(), Low: r.Len[lowState].mean(), Seen: r.Len[highState].Seen}
}

// benefit is the difference in packets between having a VF and not, from now on and with optimal decisions afterwards, for a
// load that currently has this rate, where a VF has that price (packets/s) and getting one costs cost. lag is the delay in
// seconds of a decision that waits for the load to change; dt are the seconds since the last call.
func (r *runs) benefit(rate, price, cost, lag, dt float64) float64 {
	after := [2]float64{ // after a low stretch, and after a high one
		lowState:  min(max(r.Benefit[highState], 0), cost+max(0, r.High-price)*lag),
		highState: max(min(r.Benefit[lowState], cost), min(0, r.Low-price)*lag),
	}
	if r.Age <= dt || math.Mod(r.Age, refresh) < dt {
		other, level := 1-r.Is, [2]float64{r.Low, r.High}
		r.Benefit[other] = r.Len[other].benefit(0, level[other]-price, after[other], cost)
	}
	w := r.Len[r.Is].benefit(r.Age, rate-price, after[r.Is], cost)
	if r.Is == lowState {
		w = max(w, min(0, r.Low-price)*lag) // it can be given up at the next sample
	}
	return w
}
