package bandwidth

import (
	"math"
	"time"
)

// tracked is what is remembered of a sender's use of one resource.
type tracked struct {
	noise   float64              // relative deviation of readings at an unchanged limit
	last    float64              // reading
	limit   float64              // in force when last was read
	mean    float64              // of readings
	share   float64              // set aside for it
	demand  float64              // what it is taken to want; +Inf: unknown, more than it has
	kept    float64              // s since its limit last changed
	fell    float64              // what it sent of its guarantee before it fell; 0: it did not
	lately  [settleTicks]float64 // limits of the last ticks, the oldest overwritten first
	ticks   int
	atFloor bool    // its limit is the least there is
	hungry  bool    // its limit holds it down
	bound   int     // of the last ticks, in how many it was at its limit
	reached float64 // what it sent then, in the mean
	grown   float64 // what it has to exceed again to have grown; 0: it did not the last time
	below   float64 // s below hungryOff
	hold    hold
	fellAt  time.Time
}

// newTracked is a sender that nothing is known of.
func newTracked() tracked { return tracked{noise: firstNoise, limit: math.Inf(1)} }

// inForce notes a tick's limit, and settled is the lowest that may still be what counts.
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

// estimate makes of a reading what the sender demands. in: the limit in force.
func (t *tracked) estimate(k *moment, c *usage, in float64) {
	if !c.known {
		t.demand = max(t.demand, c.guarantee) // whatever it does, what it is promised is kept for it
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
		t.demand = t.mean // the noise of all of them together is what matters: see margin
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

// learnNoise takes the deviation from the reading before, where nothing but noise can have made it.
func (t *tracked) learnNoise(m, in float64) {
	if in != t.limit || m <= 0 || t.last <= 0 {
		return
	}
	d := min(mostNoise, math.Abs(m-t.last)/m)
	t.noise = min(mostNoise, max(leastNoise, t.noise+noiseGain*(d-t.noise)))
}

// appetite says whether its limit holds it down.
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

// grew says whether it sends more than was set aside for it, so that nobody knows how much it wants.
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

// remember brings the mean up to date. A step begins it anew, but a fall on a full link may be others' doing.
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

// atLimit counts for how long its limit has bound it. That is forgotten a few ticks after it last did, so that
// those who are held down by something else then show.
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
