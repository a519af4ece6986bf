package bandwidth

import "time"

// trial determines why guaranteed senders send much less than before on a link that was full and no longer is: because it
// carries less than assumed, or because they want less. No reading tells, because others may fill what such a link has left. So
// for some periods the capacity is assumed to be the present volume, and the fallen are given a little more of it at the cost
// of senders without a guarantee. If they use it, they are given all that they had. As long as the volume then stays constant,
// whoever sends it, the link is full; otherwise the previous state is restored.
type trial struct {
	on    bool
	all   bool // they used the increase, and are given all that they had
	took  bool // and used that
	began time.Time
	ticks int
	sent  float64 // by the fallen at the start
	step  float64 // bits/s: the increase
	next  time.Time
	wait  time.Duration
}

// suspect reports whether a constant volume justifies a trial. No trial may push others below their guarantees.
func (c *capacity) suspect(now time.Time, v volume, low float64) bool {
	if v.blind || v.others > 0 && v.others+v.theirs > handedOut*low {
		return false
	}
	return !c.probing && v.lack > plateauShort*c.hat && low >= trialLeast*c.hat && !now.Before(c.trial.next)
}

// try starts a trial on a link assumed to carry so much.
func (c *capacity) try(now time.Time, v volume, carries float64) {
	c.trial = trial{on: true, began: now, sent: v.fallen, step: max(trialStep*carries, trialSure*v.noise), wait: c.trial.wait}
	c.before = c.hat
	c.set(min(c.hat, carries))
}

// tried continues a trial, or ends it once its result is clear.
func (c *capacity) tried(now time.Time, v volume) {
	t := &c.trial
	t.ticks++
	changed := v.blind || v.bits > c.hat*(1+plateauFlat)+plateauNoise*v.noise || v.bits < handedOut*c.hat-trialGain*t.step
	gained, over := v.fallen >= t.sent+trialGain*t.step, now.Sub(t.began) >= trialTime && t.ticks >= trialTicks
	switch {
	case changed || over && !gained:
		t.on, t.wait = false, min(trialLast, max(probeFirst, 2*t.wait))
		t.next = now.Add(t.wait)
		c.set(c.before)
	case gained && !t.all:
		t.all, t.began, t.ticks = true, now, 0
	case over:
		t.on, t.took, t.wait = false, true, 0
		c.fell(now, c.hat)
	}
}

// rest discards the observations, and ends a trial, while nothing can be learned.
func (c *capacity) rest() {
	if c.trial.on {
		c.trial.on, c.hat = false, c.before
	}
	c.set(c.hat)
}

// taken is the capacity assumed so far: a trial has no effect on it before it ends.
func (c *capacity) taken() float64 {
	if c.trial.on {
		return c.before
	}
	return c.hat
}

// more is the part of their deficit that the fallen are given in a trial.
func (c *capacity) more(lack float64) float64 {
	switch {
	case lack <= 0:
		return 0
	case c.trial.all:
		return 1
	}
	return min(1, c.trial.step/lack)
}

// lacks is the total that the fallen lack of what they sent before.
func (r *resource) lacks() (lack float64) {
	for i := range r.tracked {
		if t := &r.tracked[i]; t.fell > 0 {
			lack += t.fell - t.last
		}
	}
	return lack
}

// hold reserves the guarantees of the fallen once the link is known to hold them down.
func (r *resource) hold(k *moment) {
	for i := range r.tracked {
		if t, c := &r.tracked[i], &r.usages[i]; t.fell > 0 {
			t.fell, t.hold.until = 0, k.now.Add(holdTime)
			t.demand = max(t.demand, min(c.guarantee, c.limit))
		}
	}
}

// fall records that a guaranteed sender on a full link suddenly sends much less of its guarantee, until it recovers, stops or
// is held down by its own limit. During a trial the set of the fallen does not grow.
func (t *tracked) fall(k *moment, c *usage, m, in float64) {
	switch had := min(t.last, c.guarantee); {
	case k.trial:
	case m < holdActive*c.guarantee || m >= hungryOn*in:
		t.fell = 0
	case m < holdFall*had && !k.lastFull.IsZero() && k.now.Sub(k.lastFull) < fullLately:
		t.fell, t.fellAt = max(t.fell, had), k.now
	case m >= holdFall*t.fell || k.now.Sub(t.fellAt) > fallenFor:
		t.fell = 0
	}
}
