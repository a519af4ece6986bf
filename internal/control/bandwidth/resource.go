package bandwidth

import (
	"math"
	"time"
)

// moment is the state of a tick that is common to all senders.
type moment struct {
	now      time.Time
	period   time.Duration // since the previous tick
	capacity float64
	promise  float64 // the capacity used for guarantees: see capacity.promise
	full     bool    // senders may be held down by others
	room     bool    // it carries clearly less than it did lately, and than it could
	forced   bool    // that those with a guarantee send less is no choice of theirs: all do, or others have taken it
	taken    float64 // what others have just taken of it
	probing  bool
	trial    *trial // the one under way, or nil

	smooth, fall, slow float64 // weight of a reading in the means of smoothTime, fallTime and a second
	meanNoise          float64 // noise of a mean of smoothTime, relative to one reading's. Queues absorb the excess of single readings
}

// load is what the senders with a guarantee, and all others, send together.
type load struct{ guaranteed, others float64 }

func (l *load) add(guaranteed bool, sent float64) {
	if guaranteed {
		l.guaranteed += sent
	} else {
		l.others += sent
	}
}

// gain is the weight of a reading in an exponential mean.
func gain(period, tau time.Duration) float64 { return 1 - math.Exp(-float64(period)/float64(tau)) }

// resource divides bits/s or packets/s. Its lists have an entry for each sender.
type resource struct {
	usages   []usage
	tracked  []tracked
	force    []float64 // limits in force
	demand   []float64
	share    []float64
	promised []float64 // the part of each guarantee that can be kept, asked for or not
	limits   []float64 // the new limits
	room     []float64 // how far each may grow beyond that
	floor    float64   // the minimum limit of each
	spare    float64   // what nobody demanded
	proven   float64   // the highest volume of the last second; 0: nobody looks
	deprived bool      // others have taken a part from those with a guarantee, and the volume has not fallen since
	careful  time.Time // until then rooms of those without a guarantee are small: others used theirs to hold guaranteed senders down
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
	for _, list := range []*[]float64{&r.force, &r.demand, &r.share, &r.promised, &r.limits, &r.room} {
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

func (r *resource) promises() bool { return r.guaranteed() > 0 }

// moment sums up the readings of a tick, once in each.
func (r *resource) moment(now time.Time, period time.Duration, amount float64) moment {
	var sent, last load      // last: before, at most the limits in force now, since a lower limit is no fall of theirs
	fall, others := 0.0, 0.0 // of those with a guarantee that still send, and what those without one sent before
	for i := range r.usages {
		c, was := &r.usages[i], min(r.tracked[i].last, r.force[i])
		guaranteed := c.guarantee > 0
		sent.add(guaranteed, c.sent)
		last.add(guaranteed, was)
		if !guaranteed {
			others += r.tracked[i].last
		} else if !c.stopped(r.force[i]) {
			fall += was - c.sent
		}
	}
	total := sent.guaranteed + sent.others
	full := total >= fullLink*amount
	k := moment{now: now, period: period, capacity: amount, promise: amount, full: full}
	fell := total < (1-clearly)*(last.guaranteed+last.others)
	k.room = !full && (fell || total < (1-clearly)*r.proven)
	if taken := min(fall, sent.others-others); !fell && taken > clearly*amount {
		k.taken = taken
	}
	r.deprived = !fell && (r.deprived || k.taken > 0)
	k.forced = r.deprived || sent.guaranteed < last.guaranteed && sent.others < (1-clearly)*last.others
	k.smooth, k.fall, k.slow = gain(period, smoothTime), gain(period, fallTime), gain(period, second)
	k.meanNoise = math.Sqrt(min(1, float64(period)/float64(2*smoothTime)))
	return k
}

// estimate determines the demand of each sender, and whether some were held down by others that used what they were lent.
func (r *resource) estimate(k *moment) {
	squeezed, hurt, beyond := false, false, 0.0 // hurt: by more than noise
	for i := range r.tracked {
		t, c, in := &r.tracked[i], &r.usages[i], r.force[i]
		if c.guarantee == 0 && t.share > 0 {
			beyond += max(0, c.sent-t.share)
		}
		if t.estimate(k, c, in); c.guarantee == 0 || !c.known {
			continue
		}
		if wants := min(t.lack.want, r.promised[i]); k.full && c.sent > active*c.guarantee {
			squeezed = squeezed || c.sent < (1-worthwhile)*wants
			hurt = hurt || c.sent < (1-clearly)*wants
		}
		t.lack.see(k, c, t, in, r.promised[i])
	}
	if squeezed && beyond > little*k.capacity {
		r.careful = k.now.Add(carefulTime)
	}
	r.lend(k, hurt)
}

// lend reserves the guarantees of senders that come and go in the course of a few periods, and each time hold other guaranteed senders down
// until others no longer use what was theirs.
func (r *resource) lend(k *moment, hurt bool) {
	left := 1 - gain(k.period, carefulTime)
	for i := range r.tracked {
		t, c := &r.tracked[i], &r.usages[i]
		if c.guarantee == 0 {
			continue
		}
		if t.harm *= left; hurt && c.sent > t.share+little*k.capacity {
			t.harm = min(t.harm+1, harmMost+1)
		}
		if t.harm > harmMost {
			t.demand = max(t.demand, c.guarantee)
		}
	}
}

// guaranteed is the sum of all guarantees.
func (r *resource) guaranteed() (sum float64) {
	for i := range r.usages {
		sum += r.usages[i].guarantee
	}
	return sum
}
