package bandwidth

import (
	"math"
	"time"
)

// tracked is the state kept of a sender's use of one resource.
type tracked struct {
	noise   float64              // relative deviation of readings at an unchanged limit
	last    float64              // the last reading
	limit   float64              // the limit in force at the last reading
	mean    float64              // mean of the readings
	share   float64              // share assigned to it
	demand  float64              // estimated demand; +Inf: unknown, more than its share
	kept    float64              // s since its limit last changed
	fell    float64              // what it sent of its guarantee before it fell; 0: it has not fallen
	lately  [settleTicks]float64 // limits of the last ticks, a ring buffer
	ticks   int
	atFloor bool    // its limit is the floor
	hungry  bool    // its limit holds it down
	bound   int     // ticks at its limit, recently
	reached float64 // mean of what it sent at its limit
	grown   float64 // what it must exceed again to have grown; 0: it did not exceed its share in the last tick
	below   float64 // s spent below hungryOff
	hold    hold
	fellAt  time.Time
}

// newTracked is the state of a new sender.
func newTracked() tracked { return tracked{noise: firstNoise, limit: math.Inf(1)} }

// inForce records a tick's limit, and settled is the lowest limit that may still be in effect.
func (t *tracked) inForce(limit float64) {
	t.lately[t.ticks%settleTicks] = limit
	t.ticks++
}

func (t *tracked) settled(seconds float64) float64 {
	low := math.Inf(1)
	n := min(t.ticks, settleTicks, 1+int(settleTime/seconds))
	for i := range n {
		low = min(low, t.lately[(t.ticks-1-i)%settleTicks])
	}
	return low
}

// estimate derives the sender's demand from a reading. in is the limit in force.
func (t *tracked) estimate(k *moment, c *usage, in float64) {
	if !c.known {
		t.demand = max(t.demand, c.guarantee) // without a reading its guarantee remains reserved
		return
	}
	m := c.sent
	t.learnNoise(m, in)
	t.appetite(k, m, in)
	grew := t.grew(k, c, m)
	if c.guarantee > 0 || t.fell > 0 {
		t.fall(k, c, m, in)
	}
	rising := m > t.mean*(1+stepNoise*t.noise)
	t.remember(k, c, m)
	t.atLimit(k, in)
	switch {
	case t.hungry || grew:
		t.demand = math.Inf(1)
	case c.guarantee == 0:
		t.demand = t.mean // the combined noise of all of them is what matters: see margin
	default:
		t.demand = t.mean * (1 + max(leastMargin, noiseMargin*t.noise*k.meanNoise))
		if rising && m < c.guarantee {
			t.demand = max(t.demand, min(c.guarantee, climbing*m))
		}
	}
	if c.guarantee > 0 {
		t.demand = t.hold.keep(k, c, t, m, grew)
	}
	t.demand = max(t.demand, c.wants)
	if k.trial && t.fell > 0 {
		t.demand = max(t.demand, m+k.more*(t.fell-m))
	}
	t.last, t.limit = m, in
}

// learnNoise updates the noise from the deviation from the previous reading, if only noise can have caused it.
func (t *tracked) learnNoise(m, in float64) {
	if in != t.limit || m <= 0 || t.last <= 0 {
		return
	}
	d := min(mostNoise, math.Abs(m-t.last)/m)
	t.noise = min(mostNoise, max(leastNoise, t.noise+noiseGain*(d-t.noise)))
}

// appetite updates whether the limit holds the sender down.
func (t *tracked) appetite(k *moment, m, in float64) {
	switch {
	case m >= hungryOn*in && m >= min(hungryNear, 1-hungryNoise*t.noise)*in, t.atFloor && m >= stirs*in:
		t.hungry, t.below = true, 0
		return
	case m < idleNow*in:
		t.hungry = false
	case m < hungryOff*in:
		t.below += k.seconds
	default:
		t.below += k.seconds / hungrySlow
	}
	if t.below >= hungryTime {
		t.hungry = false
	}
}

// grew reports whether the sender exceeds its share, so that its demand is unknown.
func (t *tracked) grew(k *moment, c *usage, m float64) bool {
	least := growBits
	if c.guarantee > 0 {
		least = growPromise
	}
	line := t.share*(1+growNoise*t.noise) + least*k.capacity
	again := t.grown > 0 && m > t.grown
	t.grown = 0
	switch {
	case !k.full && m >= c.guarantee, m <= line && !again:
		return false
	case again || c.guarantee == 0 || m > t.share*(1+growSurely):
		return true
	}
	t.grown = line
	return false
}

// remember updates the mean. A step restarts it, except a fall of a guaranteed sender on a full link, which other senders may
// have caused.
func (t *tracked) remember(k *moment, c *usage, m float64) {
	part := k.smooth
	if step := stepNoise * t.noise * t.mean; m > t.mean+step || m < t.mean-step && (c.guarantee == 0 || !k.full) {
		t.mean = m
		return
	} else if m < t.mean-step {
		part = k.fall
	}
	t.mean += part * (m - t.mean)
}

// atLimit counts the ticks in which its limit has bound the sender. The count decays within a few ticks once the limit no
// longer binds, so that another cause holding the sender down becomes visible.
func (t *tracked) atLimit(k *moment, in float64) {
	if t.mean < hungryOn*in {
		t.bound = max(0, t.bound-1)
		return
	}
	t.bound = min(t.bound+1, boundMost)
	if d := t.mean - t.reached; math.Abs(d) > (1-hungryOn)*t.mean {
		t.reached = t.mean
	} else {
		t.reached += k.reach * d
	}
}
