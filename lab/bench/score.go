package main

import (
	"math"
	"sort"
	"time"
)

const (
	window    = 200 * time.Millisecond
	satisfies = .95 // fraction of its entitlement that a guest must get in a window
)

// result is the result of a run.
type result struct {
	Satisfied   float64 `json:"satisfied_percent"`  // of the windows in which guests were entitled to something
	Short       float64 `json:"short_mbit"`         // total shortfall
	Used        float64 `json:"used_percent"`       // of what an ideal allocation would have carried
	Changes     float64 `json:"changes_s_vm"`       // limits changed per second and guest
	Recovery    float64 `json:"recovery_s"`         // longest, from a wake until a satisfied window begins or it sleeps; -1: no guest woke
	Found       float64 `json:"capacity_found_s"`   // until a new capacity was known within 1 %; -1: never, or no change
	Again       uint64  `json:"retransmits"`        // TCP retransmissions
	Late        int     `json:"late_ticks"`         // of the controller
	Tick        float64 `json:"tick_us"`            // duration of a tick
	GoodSamples int     `json:"windows"`            // windows that were scored
	Wire        float64 `json:"carried_mbit"`       // on the wire
	Local       float64 `json:"vm_to_vm_mbit_s"`    // between guests
	ByGuest     []part  `json:"by_guest,omitempty"` // those with a guarantee
}

// part is the result for one guest's guarantee.
type part struct {
	Guest     int     `json:"guest"`
	Satisfied float64 `json:"satisfied_percent"`
	Mbit      float64 `json:"mbit_s"`
}

// trace is what the sink received, with times relative to the start of the run.
type trace struct {
	begin   time.Time
	samples []sample
}

// received returns how much of a guest's data had arrived by a time, interpolated between samples.
func (tr *trace) received(guest int, t time.Duration) float64 {
	at := tr.begin.Add(t)
	i := sort.Search(len(tr.samples), func(i int) bool { return !tr.samples[i].at.Before(at) })
	switch i {
	case 0:
		return tr.samples[0].bits[guest]
	case len(tr.samples):
		return tr.samples[i-1].bits[guest]
	}
	a, b := &tr.samples[i-1], &tr.samples[i]
	part := at.Sub(a.at).Seconds() / b.at.Sub(a.at).Seconds()
	return a.bits[guest] + part*(b.bits[guest]-a.bits[guest])
}

// rate returns the rate at which a guest's data arrived between two times, in bit/s.
func (tr *trace) rate(guest int, from, to time.Duration) float64 {
	return (tr.received(guest, to) - tr.received(guest, from)) / (to - from).Seconds()
}

// score evaluates a run.
func score(sc *scenario, tr *trace) result {
	r := result{Recovery: worstRecovery(sc, tr), Found: -1}
	entitled := make([]float64, len(sc.guests))
	good, all := make([]int, len(sc.guests)), make([]int, len(sc.guests))
	ideal, carried := 0.0, 0.0
	for t := time.Duration(0); t+window <= sc.length; t += window {
		sc.entitled(t, entitled)
		ideal += sc.ideal(t) * window.Seconds()
		for i := range sc.guests {
			rate := tr.rate(i, t, t+window)
			if sc.guests[i].to > 0 {
				r.Local += rate * window.Seconds() / sc.length.Seconds() / 1e6
				continue
			}
			carried += rate * window.Seconds()
			if entitled[i] < .001*linkBits {
				continue
			}
			all[i]++
			if rate >= satisfies*entitled[i] {
				good[i]++
			}
			r.Short += max(0, entitled[i]-rate) * window.Seconds() / 1e6
		}
	}
	satisfied := 0
	for i := range all {
		satisfied += good[i]
		r.GoodSamples += all[i]
		if all[i] > 0 {
			r.ByGuest = append(r.ByGuest, part{i + 1, percent(good[i], all[i]), tr.rate(i, 0, sc.length) / 1e6})
		}
	}
	r.Satisfied = percent(satisfied, r.GoodSamples)
	r.Used = 100 * carried / ideal
	r.Wire = carried / sc.length.Seconds() / 1e6
	return r
}

func percent(a, b int) float64 {
	if b == 0 {
		return math.NaN()
	}
	return 100 * float64(a) / float64(b)
}

// worstRecovery returns the longest time from when a guest with a guarantee starts to demand something to the start of a window in
// which it gets it.
func worstRecovery(sc *scenario, tr *trace) float64 {
	const step = 20 * time.Millisecond
	worst := -1.0
	entitled := make([]float64, len(sc.guests))
	for i := range sc.guests {
		g := &sc.guests[i]
		for k := 1; g.guarantee > 0 && k < len(g.demand); k++ {
			wake := g.demand[k].from
			end := sc.length
			if k+1 < len(g.demand) {
				end = g.demand[k+1].from
			}
			if g.demand[k-1].bits != 0 || g.demand[k].bits == 0 || end-wake < window || wake >= sc.length {
				continue
			}
			took := end - wake // or longer, if it never recovers
			for t := wake; t+window <= end; t += step {
				sc.entitled(t, entitled)
				if tr.rate(i, t, t+window) >= satisfies*entitled[i] {
					took = t - wake
					break
				}
			}
			worst = max(worst, took.Seconds())
		}
	}
	return worst
}

// timeToFind returns how long after the drop of the link's capacity, or the start if it was lower from then on, the controller estimated it
// within 1 %; -1: never.
func timeToFind(sc *scenario, begin time.Time, seen []found) float64 {
	since := begin.Add(sc.fall)
	switch {
	case sc.fall > 0:
	case sc.cold > 0:
		since = begin.Add(-warmUp)
	default:
		return -1
	}
	for _, f := range seen {
		if f.at.After(since) && f.bits <= sc.capacity(sc.fall)*1.01 {
			return f.at.Sub(since).Seconds()
		}
	}
	return -1
}
