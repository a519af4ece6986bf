package bandwidth

import (
	"math"
	"time"
)

// moment is what holds for all senders in a tick.
type moment struct {
	now      time.Time
	seconds  float64 // since the tick before
	capacity float64
	promise  float64 // the capacity that guarantees go by: nothing is taken from them for a trial
	full     bool    // others may hold a sender down
	lastFull time.Time
	probing  bool
	trial    bool
	more     float64 // in a trial: the part of what they lack that the fallen are given

	smooth, fall, reach float64 // what the means of smoothTime, fallTime and reachTime take of a reading
	meanNoise           float64 // what a mean of smoothTime has of the noise of one reading. What single readings exceed it by, queues take
}

// gain is what an exponential mean takes of a reading after so long, s.
func gain(seconds, tau float64) float64 { return 1 - math.Exp(-seconds/tau) }

// resource shares bits/s or packets/s. Its lists have an entry for each sender.
type resource struct {
	usages   []usage
	tracked  []tracked
	force    []float64 // limits in force
	demand   []float64
	share    []float64
	promised []float64 // what is kept of guarantees, asked for or not
	limits   []float64 // what is to be
	floor    float64   // the least that each is allowed
	spare    float64   // what nobody demanded
	lastFull time.Time
	fill     filler
}

// follow takes over what is known of the senders, which were at these places; -1: nowhere.
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

// set takes the limit in force of a sender whose usage is new. One without a reading is taken to send on.
func (r *resource) set(i int, force float64) {
	c := &r.usages[i]
	c.known = c.known && c.sent >= 0 // it may not even be a number
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

// estimate finds what each demands.
func (r *resource) estimate(k *moment) {
	for i := range r.tracked {
		t := &r.tracked[i]
		t.atFloor = r.force[i] <= r.floor*(1+atFloorWithin)
		t.inForce(r.force[i])
		t.estimate(k, &r.usages[i], r.force[i])
	}
}

// divide shares the capacity by demands, and makes limits of the shares.
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
		enough := r.share[i] >= t.demand*(1-rounding) // its limit is above its share, for growth
		if enough {
			l = max(l, t.mean*(1+max(leastRoom, min(mostRoom, noiseRoom*t.noise)))+moreRoom*k.capacity)
		}
		t.share = r.share[i]
		r.limits[i] = r.keep(k, i, min(l, c.limit), enough, &room)
	}
}

// margin is kept for the noise of all that are promised nothing and have enough, together.
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
