package bandwidth

import (
	"math"
	"time"
)

// tracked is the state kept of a sender's use of one resource.
type tracked struct {
	noise  float64       // relative deviation of readings at an unchanged limit
	last   float64       // the last reading
	prev   float64       // the one before
	limit  float64       // the limit in force at the last reading
	mean   float64       // mean of the readings
	was    float64       // the mean before the last reading
	slow   float64       // a slower mean
	share  float64       // share assigned to it
	demand float64       // estimated demand; +Inf: unknown, more than its share
	kept   time.Duration // since its limit last changed
	hungry bool          // its limit holds it down
	below  time.Duration // spent below bound
	grown  float64       // what it must exceed again to have grown; 0: it did not exceed its share in the last tick
	more   bool          // it wants more than it has
	partly bool          // of what it wants more it has been given a part, since that may be all
	enough bool          // its share is all that it wants
	rising bool          // by more than noise
	harm   float64       // how often lately others were held down when it came back; older times count less
	lack   lack
}

// newTracked is the state of a new sender.
func newTracked() tracked { return tracked{noise: firstNoise, limit: math.Inf(1)} }

// estimate derives the sender's demand from a reading. in is the limit in force.
func (t *tracked) estimate(k *moment, c *usage, in float64) {
	if !c.known {
		t.demand = max(t.demand, c.guarantee) // without a reading its guarantee remains reserved
		return
	}
	m := c.sent
	if k.trial == nil {
		t.learnNoise(m, in)
	} else if c.guarantee == 0 && !t.more { // it has no room to grow now, so that reaching its limit says nothing
		t.prev, t.last, t.limit = t.last, m, in
		return
	}
	t.appetite(k, m, in)
	grew := t.grew(k, c, m)
	t.rising = m > t.mean*(1+certainly*t.noise)
	t.remember(k, c, m, in)
	took := t.partly && m >= bound*t.share
	t.more = t.hungry || grew || took
	less := max(t.was, t.lack.want) < (1-clearly)*c.guarantee // it had less than its guarantee, and is not known to want it
	t.partly = grew && less && !took && t.was > active*c.guarantee
	switch {
	case t.partly:
		t.demand = max(m+wantGrowth*max(0, m-t.was)+worthwhile*k.capacity, t.roomy(k))
	case t.more && less: // it wakes
		t.demand = math.Inf(1)
	case t.more:
		t.demand = max(c.guarantee+wantGrowth*max(0, m-c.guarantee)+worthwhile*k.capacity, t.roomy(k))
	case c.guarantee == 0:
		t.demand = t.mean // the combined noise of all of them is what matters: see margin
	case m < min(t.last, in)/2 && k.room && !k.forced: // it has stopped within the period
		t.demand = 0
	default:
		t.demand = t.mean * (1 + surely*t.noise*k.meanNoise)
		t.demand += t.trend() * (smoothTime + 2*k.period).Seconds()
	}
	if c.guarantee > 0 && (k.full || k.forced) && !c.stopped(in) {
		t.demand = max(t.demand, min(t.lack.want, c.guarantee))
	}
	t.demand = max(t.demand, c.wants)
	t.prev, t.last, t.limit = t.last, m, in
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
	case m >= bound*in:
		t.hungry, t.below = true, 0
		return
	case m < in/2:
		t.hungry = false
	}
	t.below += k.period
	if t.below >= shortly {
		t.hungry = false
	}
}

// grew reports whether the sender exceeds its share, so that its demand is unknown. A guaranteed sender has to do so twice unless it
// does so by far.
func (t *tracked) grew(k *moment, c *usage, m float64) bool {
	least := negligible
	if c.guarantee > 0 {
		least = growPromise
	}
	line := t.share*(1+surely*t.noise) + least*k.capacity
	again := t.grown > 0 && m > t.grown
	t.grown = 0
	switch {
	case !k.full && m >= c.guarantee, m <= line && !again:
		return false
	case again || c.guarantee == 0 || m > t.share*(1+clearly):
		return true
	}
	t.grown = line
	return false
}

// remember updates the mean. A step restarts it, except a fall of a guaranteed sender on a full link, which other senders may
// have caused, unless it is to nothing.
func (t *tracked) remember(k *moment, c *usage, m, in float64) {
	part := k.smooth
	t.was = t.mean
	if t.slow += k.slow * (m - t.slow); math.Abs(t.mean-t.slow) > trendStep*c.guarantee {
		t.slow = t.mean
	}
	if step := certainly * t.noise * t.mean; m > t.mean+step || m < t.mean-step && (c.guarantee == 0 || !k.full || c.stopped(in)) {
		t.mean = m
		return
	} else if m < t.mean-step {
		part = k.fall
	}
	t.mean += part * (m - t.mean)
}

// mayLack reports whether the link may be why it lacks so much: it neither rises by itself, nor comes and goes, but for what others took.
func (t *tracked) mayLack(lacks, taken float64) bool {
	more, most := t.last-t.prev, much*max(t.last, t.prev)
	return lacks > 0 && more < lacks && more <= most && -more <= most+taken && !t.rising && t.trend() == 0
}

// roomy is a limit that noise alone hardly reaches, so that it is not taken for growth: 4 % above the mean reach 95 % of it,
// more if it sends little of the link.
func (t *tracked) roomy(k *moment) float64 {
	return t.mean*(1+roomShare) + little*k.capacity
}

// trend is by how much the mean rises, per second; 0 if it does not rise beyond noise.
func (t *tracked) trend() float64 {
	return max(0, t.mean-t.slow-trendNoise*t.noise*t.mean) / (second - smoothTime).Seconds()
}
