package main

import (
	"math"
	"time"

	"sluice/internal/control/bandwidth"
)

// informed is the name of an allocator that is told what each guest wants and what the link carries, a period later, which is
// when a law can know it from readings. It shows what limits can reach that stay for a period.
const informed = "informed"

// handedOut is the part of the link's capacity that is divided, as under waterfill.
const handedOut = .995

// floor is the least that a guest may send, in bit/s: from a limit near zero TCP recovers slowly.
const floor = .005 * linkBits

// oracle is that allocator.
type oracle struct {
	sc              *scenario
	began           time.Time     // of the scenario
	late            time.Duration // how long after a change it is told
	entitled, share []float64
}

// newAllocator returns the allocator of that name.
func newAllocator(sc *scenario, name string, period time.Duration) (bandwidth.Allocator, error) {
	if name == informed {
		return &oracle{sc: sc, late: period, entitled: make([]float64, len(sc.guests)), share: make([]float64, len(sc.guests))}, nil
	}
	return bandwidth.NewAllocator(name)
}

func (o *oracle) Capacity() float64 { return linkBits }

// Allocate gives each guest what it wants of its guarantee, divides the rest equally among those that want more, and what nobody wants
// among all.
func (o *oracle) Allocate(now time.Time, _ bandwidth.Link, _ []bandwidth.Sender, out []bandwidth.Allowance) {
	t := max(0, now.Sub(o.began)-o.late)
	left := handedOut * o.sc.capacity(t)
	o.sc.entitledOf(left, t, o.entitled)
	copy(o.share, o.entitled)
	for _, bits := range o.entitled {
		left -= bits
	}
	left = o.pour(left, func(i int) float64 { return o.sc.guests[i].at(t) })
	o.pour(left, func(int) float64 { return math.Inf(1) })
	promised := 0.0
	for i := range o.sc.guests {
		promised += o.sc.guests[i].guarantee * linkBits
	}
	for i := range out {
		if out[i] = bandwidth.Unlimited; o.sc.guests[i].to > 0 {
			continue
		}
		if out[i].Bits = max(o.share[i], floor); promised <= handedOut*o.sc.capacity(t) {
			out[i].Bits = max(out[i].Bits, o.sc.guests[i].guarantee*linkBits)
		}
	}
}

// pour divides an amount equally among the guests that send over the uplink and want more than they have, and returns what is left.
func (o *oracle) pour(left float64, want func(i int) float64) float64 {
	for left > 1 {
		n, step := 0.0, math.Inf(1)
		for i := range o.share {
			if more := want(i) - o.share[i]; o.sc.guests[i].to == 0 && more > 1 {
				n++
				step = min(step, more)
			}
		}
		if n == 0 {
			break
		}
		step = min(step, left/n)
		for i := range o.share {
			if o.sc.guests[i].to == 0 && want(i)-o.share[i] > 1 {
				o.share[i] += step
			}
		}
		left -= n * step
	}
	return left
}
