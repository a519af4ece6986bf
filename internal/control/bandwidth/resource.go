package bandwidth

import (
	"math"
	"time"
)

// moment is the state of a tick that is common to all senders.
type moment struct {
	now      time.Time
	seconds  float64 // since the previous tick
	capacity float64
	promise  float64 // the capacity used for guarantees: a trial takes nothing from them
	full     bool    // senders may be held down by others
	lastFull time.Time
	probing  bool
	trial    bool
	more     float64 // in a trial: the part of their deficit that the fallen are given

	smooth, fall, reach float64 // weight of a reading in the means of smoothTime, fallTime and reachTime
	meanNoise           float64 // noise of a mean of smoothTime, relative to one reading's. Queues absorb the excess of single readings
}

// gain is the weight of a reading in an exponential mean after so many seconds.
func gain(seconds, tau float64) float64 { return 1 - math.Exp(-seconds/tau) }

// resource divides bits/s or packets/s. Its lists have an entry for each sender.
type resource struct {
	usages   []usage
	tracked  []tracked
	force    []float64 // limits in force
	demand   []float64
	share    []float64
	promised []float64 // the part of each guarantee that can be kept, asked for or not
	limits   []float64 // the new limits
	floor    float64   // the minimum limit of each
	spare    float64   // what nobody demanded
	lastFull time.Time
	fill     filler
}

// follow carries over the state of the senders; from has their old indexes, -1: new.
func (r *resource) follow(from []int) {
	n := len(from)
	old := r.tracked
	r.tracked, r.usages = make([]tracked, n), make([]usage, n)
	for i, j := range from {
		r.tracked[i] = newTracked()
		if j >= 0 {
			r.tracked[i] = old[j]
		}
	}
	for _, list := range []*[]float64{&r.force, &r.demand, &r.share, &r.promised, &r.limits} {
		*list = make([]float64, n)
	}
}

// set stores the limit in force of a sender whose usage was just updated. Without a reading the last one is assumed to
// continue.
func (r *resource) set(i int, force float64) {
	c := &r.usages[i]
	c.known = c.known && c.sent >= 0 // it may be NaN
	if r.force[i] = force; !c.known {
		c.sent = r.tracked[i].last
	}
}

func (r *resource) promises() bool {
	for i := range r.usages {
		if r.usages[i].guarantee > 0 {
			return true
		}
	}
	return false
}

func (r *resource) moment(now time.Time, period time.Duration, amount float64) moment {
	total := 0.0
	for i := range r.usages {
		total += r.usages[i].sent
	}
	full := total >= fullLink*amount
	if full {
		r.lastFull = now
	}
	k := moment{now: now, seconds: period.Seconds(), capacity: amount, promise: amount, full: full, lastFull: r.lastFull}
	k.smooth, k.fall, k.reach = gain(k.seconds, smoothTime), gain(k.seconds, fallTime), gain(k.seconds, reachTime)
	k.meanNoise = math.Sqrt(min(1, k.seconds/(2*smoothTime)))
	return k
}

// estimate determines the demand of each sender.
func (r *resource) estimate(k *moment) {
	for i := range r.tracked {
		t := &r.tracked[i]
		t.atFloor = r.force[i] <= r.floor*(1+atFloorWithin)
		t.inForce(r.force[i])
		t.estimate(k, &r.usages[i], r.force[i])
	}
}

// divide divides the capacity by demands, and derives limits from the shares.
func (r *resource) divide(k *moment) {
	budget := handedOut * k.capacity
	weights := 0.0
	for i := range r.usages {
		r.demand[i] = math.Inf(1)
		weights += r.usages[i].weight
	}
	r.fill.guarantees(handedOut*k.promise, r.usages, r.demand, r.promised)
	for i := range r.tracked {
		r.demand[i] = r.tracked[i].demand
	}
	left := r.fill.guarantees(budget, r.usages, r.demand, r.share)
	r.floor = max(leastFloor*k.promise, min(mostFloor*k.capacity, left/float64(len(r.usages))))
	left = r.fill.rest(max(0, left-r.margin()), r.usages, r.demand, r.share)
	r.spare = left
	room := keepOver * k.capacity
	for i := range r.usages {
		c, t := &r.usages[i], &r.tracked[i]
		l := max(r.share[i]+left*c.weight/weights, r.promised[i], r.floor)
		enough := r.share[i] >= t.demand*(1-rounding) // its limit is above its share, to allow growth
		if enough {
			l = max(l, t.mean*(1+max(leastRoom, min(mostRoom, noiseRoom*t.noise)))+moreRoom*k.capacity)
		}
		t.share = r.share[i]
		r.limits[i] = r.keep(k, i, min(l, c.limit), enough, &room)
	}
}

// margin is the reserve for the joint noise of all satisfied senders without a guarantee.
func (r *resource) margin() float64 {
	sum := 0.0
	for i := range r.usages {
		if r.usages[i].guarantee == 0 && !math.IsInf(r.demand[i], 1) {
			d := r.tracked[i].noise * r.demand[i]
			sum += d * d
		}
	}
	return noiseMargin * math.Sqrt(sum)
}
