package bandwidth

import (
	"math"
	"time"
)

// trial determines whether guaranteed senders that send less than their guarantees are held down by a link that carries less than
// assumed. No reading tells: they may want less. So all others together lose a little for some periods. If the tried take up a good
// part of that, the link is full, and what it carried before is its capacity; they are given all that they may want, and have to keep
// what they gained. Otherwise the others get back what they lost. If little is missing the tried are given it at once. Senders without a
// guarantee have no way to make a trial succeed: that takes a guaranteed sender that wants more than it gets.
type trial struct {
	on    bool
	part  part
	from  time.Time
	began time.Time // the present part
	step  float64   // bits/s: what the others lose
	level float64   // bits/s: what the others may then send above their guarantees

	before float64 // the capacity at the start,
	volume float64 // what the link carried then,
	sent   float64 // and the tried of it
	enough float64 // what they need to send for the trial to succeed,
	gained float64 // and what they sent at the end of the first part

	ticks              int // whose readings count, in the present part
	sumSent, sumVolume float64
}

// part is a part of a trial.
type part int

const (
	taking    part = iota // the others lose a little
	returning             // and have it back, if the link has carried more lately: then the tried have to lose what they gained
	granting              // the tried are given all
)

// learn updates the capacity with a period's readings.
func (w *waterfill) learn(k *moment, link *Link) {
	c, r := &w.capacity, &w.bits
	v, n := r.volume(), looks(link.Period)
	if c.silent += link.Period; v.shown || link.Uncontrolled { // what is uncontrolled may fill the link, and no trial would tell
		c.silent = 0
	}
	c.note(k.now, v, n)
	switch {
	case c.trial.on:
		r.tried(k, c, v, n, link.Period)
	case c.probe == idle && !link.Uncontrolled && c.n >= n && !v.blind && r.try(k, c, v, n):
	default:
		c.rise(k.now, v, n, link.Period)
	}
}

// try begins a trial if the volume is constant and somebody lacks something, and reports whether it did. All who lack something are tried
// together, so that many cost no more than one; those who rise will say by themselves what they want.
func (r *resource) try(k *moment, c *capacity, v volume, looks int) bool {
	low, mean, high := c.lately(looks)
	if mean < trialFrom*c.hat || high-low > max(lookFlat*mean, lookNoise*v.noise) {
		return false
	}
	tr := trial{on: true, from: k.now, began: k.now, before: c.hat, volume: mean}
	missing, known, noise, others, due := 0.0, 0.0, 0.0, 0.0, false
	for i := range r.tracked {
		t, u, in, promised := &r.tracked[i], &r.usages[i], r.force[i], r.promised[i]
		sent := max(t.mean, (t.prev+t.last)/2) // neither a mean that lags nor a single reading
		lacks := t.lack.wants(t, in, promised) - sent
		if t.lack.tried = u.known && t.lack.ticks >= looks && lacks > 0 && t.last-t.prev < lacks && !t.rising && t.trend() == 0; !t.lack.tried {
			others += max(0, (t.prev+t.last)/2-min(u.guarantee, t.share))
			continue
		}
		due = due || t.lack.due(k, t, in, promised)
		if missing += lacks; t.lack.known(t, in, promised) {
			known += lacks
		}
		tr.sent += sent
		noise += t.noise * t.noise * u.sent * u.sent
	}
	noise = math.Sqrt(noise)
	tr.step = min(max(trialStep*mean, trialSure*noise), others/2)
	if !due || tr.step < trialLeast*c.hat {
		return false
	}
	noise *= math.Sqrt(1/float64(looks) + k.meanNoise*k.meanNoise) // of the gain
	gain := max(min(trialGain*tr.step, missing), trialSure*noise)
	if known > 0 {
		gain = max(min(gain, known), trialKnown*noise)
	}
	tr.level, tr.enough = others-tr.step, tr.sent+gain
	c.trial = tr
	c.set(c.hat)
	if missing < directly*tr.step && !c.carriedMore(k.now, mean, v.noise) {
		r.grant(k, c)
	}
	return true
}

// tried continues a trial, or ends it once its result is clear.
func (r *resource) tried(k *moment, c *capacity, v volume, looks int, period time.Duration) {
	tr := &c.trial
	if v.blind {
		c.rest()
		return
	}
	over := k.now.Sub(tr.began)
	if over < settleTime+period { // limits were not in effect all the time
		return
	}
	for i := range r.tracked {
		if r.tracked[i].lack.tried {
			tr.sumSent += r.usages[i].sent
		}
	}
	tr.ticks++
	tr.sumVolume += v.bits
	n := float64(tr.ticks)
	mean := tr.sumSent / n
	gained, risen := mean >= tr.enough, tr.sumVolume/n > tr.volume+trialGain*tr.step+v.noise
	late := tr.ticks >= looks && (over >= trialTime || over >= trialTime/2 && mean < tr.sent+trialGain*(tr.enough-tr.sent))
	switch {
	case tr.part == taking && tr.ticks >= looks-1 && gained && !risen:
		if c.carriedMore(k.now, tr.volume, v.noise) {
			tr.gained = mean
			tr.turn(k.now, returning)
			break
		}
		r.grant(k, c)
	case tr.part == returning && tr.ticks >= looks-1 && mean <= tr.gained-trialGain*(tr.gained-tr.sent):
		r.grant(k, c)
	case tr.part == granting && tr.ticks >= looks && gained:
		r.found(k, c)
	case tr.part == granting && tr.ticks >= looks, late:
		r.failed(k, c)
	}
}

// underWay returns the trial, or nil.
func (tr *trial) underWay() *trial {
	if tr.on {
		return tr
	}
	return nil
}

// leaves is what the trial leaves the others above their guarantees.
func (tr *trial) leaves() float64 {
	switch tr.part {
	case taking:
		return tr.level
	case returning:
		return tr.level + tr.step
	}
	return math.Inf(1)
}

// turn begins a part of the trial.
func (tr *trial) turn(now time.Time, p part) {
	tr.part, tr.began, tr.ticks, tr.sumSent, tr.sumVolume = p, now, 0, 0, 0
}

// grant gives the tried all that they may want, on a link taken for what it carried before the trial.
func (r *resource) grant(k *moment, c *capacity) {
	c.trial.turn(k.now, granting)
	if c.trial.volume < trialBelow*handedOut*c.hat { // otherwise the limits are why it is full
		c.set(max(leastCarried*c.speed, c.trial.volume))
	}
}

// failed ends a trial without a change: the tried want no more.
func (r *resource) failed(k *moment, c *capacity) {
	c.trial.on = false
	c.set(c.trial.before)
	for i := range r.tracked {
		if t := &r.tracked[i]; t.lack.tried && t.lack.ticks > 0 { // one that stopped meanwhile has shown nothing
			t.lack.wait = min(trialLast, max(trialFirst, 2*t.lack.wait))
			t.lack.failed, t.lack.want = k.now, t.mean
		}
	}
}

// found ends a trial that has shown what the link carries.
func (r *resource) found(k *moment, c *capacity) {
	c.trial.on = false
	c.wait = probeFirst
	fell := c.hat < c.trial.before
	c.shown, c.silent = c.shown || fell, 0
	c.lower(k.now, c.hat)
	for i := range r.tracked {
		l := &r.tracked[i].lack
		if l.shows = l.tried || l.shows && !fell; l.tried {
			l.wait, l.ticks = 0, 0
		}
	}
}
