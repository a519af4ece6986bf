package bandwidth

import "math"

// rounding is the relative numerical error of sums.
const rounding = 1e-9

// divide divides the capacity by demands, and derives limits from the shares.
func (r *resource) divide(k *moment) {
	weights := 0.0
	for i := range r.usages {
		r.demand[i] = math.Inf(1)
		weights += r.usages[i].weight
	}
	r.fill.guarantees(handedOut*k.promise, r.usages, r.demand, r.promised)
	for i := range r.tracked {
		t := &r.tracked[i]
		if r.demand[i] = t.demand; k.trial != nil && t.lack.tried {
			switch k.trial.part {
			case granting:
				r.demand[i] = max(r.usages[i].guarantee, t.lack.want)
			case returning:
				r.demand[i] = t.lack.want // what they have had in the trial; the rest is for the others
			}
		}
	}
	promise := max(k.capacity, k.promise)
	left := r.fill.guarantees(handedOut*promise, r.usages, r.demand, r.share)
	left = max(0, left-handedOut*(promise-k.capacity))
	if k.trial != nil && k.trial.part == taking {
		left = min(r.keepTried(left), k.trial.level)
	}
	r.floor = max(leastFloor*k.promise, min(negligible*k.capacity, left/float64(len(r.usages))))
	r.spare = r.fill.rest(max(0, left-r.margin()), r.usages, r.demand, r.share)
	r.rooms(k, r.spare/weights)
	over := keepOver * k.capacity
	for i := range r.usages {
		r.limits[i] = r.keep(k, i, min(r.limits[i]+r.room[i], r.usages[i].limit), r.tracked[i].enough, &over)
	}
}

// keepTried gives those who are tried what they are known to want, as far as they may send that now, and returns what that leaves.
func (r *resource) keepTried(left float64) float64 {
	for i := range r.tracked {
		if l := &r.tracked[i].lack; l.tried {
			more := min(left, max(0, min(l.want, r.force[i], r.usages[i].limit)-r.share[i]))
			r.share[i], left = r.share[i]+more, left-more
		}
	}
	return left
}

// rooms sets the least limit of each sender, from its share and its part of what is to spare by weight, and how far satisfied ones may
// grow beyond that: little for those without a guarantee, for a while after others used it to hold guaranteed senders down.
func (r *resource) rooms(k *moment, spare float64) {
	sum := 0.0
	for i := range r.usages {
		c, t := &r.usages[i], &r.tracked[i]
		r.limits[i] = max(r.share[i]+spare*c.weight, r.promised[i], r.floor)
		r.room[i], t.share = 0, r.share[i]
		t.enough = !t.more && r.share[i] >= t.demand*(1-rounding)
		if t.enough && (k.trial == nil || c.guarantee > 0) {
			r.room[i] = max(0, t.roomy(k)-r.limits[i])
		}
		if c.guarantee == 0 {
			sum += r.room[i]
		}
	}
	if most := roomCareful * k.capacity; sum > most && k.now.Before(r.careful) {
		for i := range r.room {
			if r.usages[i].guarantee == 0 {
				r.room[i] *= most / sum
			}
		}
	}
}

// margin is the reserve for the joint noise of all satisfied senders without a guarantee.
func (r *resource) margin() float64 {
	sum := 0.0
	for i := range r.usages {
		if r.usages[i].guarantee == 0 && !r.tracked[i].more {
			d := r.tracked[i].noise * r.demand[i]
			sum += d * d
		}
	}
	return surely * math.Sqrt(sum)
}
