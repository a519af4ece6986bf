package bandwidth

import "time"

// trial finds out why guaranteed senders send much less than before on a link that was full and is not any more: because it carries
// less than it is taken for, or because they want no more. No reading tells: others may fill what such a link has left. So for
// some periods the link is taken for what it carries, and of that the fallen are given a little more, which others lose that are promised
// nothing. If they take it, they are given all that they had. As long as the volume stays what it was, whoever sends it, the
// link is full; otherwise all is as before.
type trial struct {
	on    bool
	all   bool // they took the little, and are given all that they had
	took  bool // and took that
	began time.Time
	ticks int
	sent  float64 // by the fallen, when it began
	step  float64 // bits/s: the little
	next  time.Time
	wait  time.Duration
}

// suspect says whether a volume that stays where it is gives reason for a trial. None may end with less for others than they are promised.
func (c *capacity) suspect(now time.Time, v volume, low float64) bool {
	if v.blind || v.others > 0 && v.others+v.theirs > handedOut*low {
		return false
	}
	return !c.probing && v.lack > plateauShort*c.hat && low >= trialLeast*c.hat && !now.Before(c.trial.next)
}

// try begins a trial on a link that carries so much.
func (c *capacity) try(now time.Time, v volume, carries float64) {
	c.trial = trial{on: true, began: now, sent: v.fallen, step: max(trialStep*carries, trialSure*v.noise), wait: c.trial.wait}
	c.before = c.hat
	c.set(min(c.hat, carries))
}

// tried goes on with a trial, or ends it once it is known how it ends.
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

// rest forgets what was seen, and ends a trial, while nothing can be learnt.
func (c *capacity) rest() {
	if c.trial.on {
		c.trial.on, c.hat = false, c.before
	}
	c.set(c.hat)
}

// taken is what the link is taken for: no trial is over before it ends.
func (c *capacity) taken() float64 {
	if c.trial.on {
		return c.before
	}
	return c.hat
}

// more is the part of what they lack that the fallen are given in a trial.
func (c *capacity) more(lack float64) float64 {
	switch {
	case lack <= 0:
		return 0
	case c.trial.all:
		return 1
	}
	return min(1, c.trial.step/lack)
}

// lacks sums up what the fallen lack of what they sent before.
func (r *resource) lacks() (lack float64) {
	for i := range r.tracked {
		if t := &r.tracked[i]; t.fell > 0 {
			lack += t.fell - t.last
		}
	}
	return lack
}

// hold sets aside what the fallen are promised, once it is known that the link keeps them from it.
func (r *resource) hold(k *moment) {
	for i := range r.tracked {
		if t, c := &r.tracked[i], &r.usages[i]; t.fell > 0 {
			t.fell, t.hold.until = 0, k.now.Add(holdTime)
			t.demand = max(t.demand, min(c.guarantee, c.limit))
		}
	}
}

// fall notes that a guaranteed sender on a full link suddenly sends much less of what it is promised, until it comes back, stops or is held down by
// its own limit. During a trial the fallen stay the same.
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
