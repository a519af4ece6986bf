package bandwidth

import (
	"math"
	"time"
)

// trial determines whether guaranteed senders that send less than their guarantees are held down by a link that carries less than assumed.
// No reading tells: they may want less. So all others together lose a little for some periods. If the tried take up a good part of that,
// the link is full. They are given all that they may want, on a link taken for the most that it has carried lately, and have to keep what
// they gained. If they lose it again, or gain too little, the link carries less than it did, and they are given all on one taken for what
// it carried before the trial. If that is far less than assumed, and the link has not carried more lately, the others are given back what
// they lost, and the tried have to lose what they gained. Otherwise the trial has failed. If little is missing, the first part is left
// out, unless a trial has failed of a sender that is not known to want more. Senders without a guarantee have no way to make a trial
// succeed: that takes a guaranteed sender that wants more than it gets.
type trial struct {
	on    bool
	part  part
	from  time.Time
	began time.Time // the present part
	step  float64   // bits/s: what the others lose
	level float64   // bits/s: what the others may then send above their guarantees

	before  float64 // the capacity at the start,
	volume  float64 // what the link carried then,
	free    float64 // of it those without a guarantee
	sent    float64 // and the tried
	enough  float64 // what they need to send for the trial to succeed,
	atOnce  float64 // or in a single period,
	gained  float64 // what they sent at the end of the first part, or need to send if there is none,
	granted float64 // and what the link is taken for in the second,
	cut     float64 // and what they lacked of their guarantees at its end

	ticks              int // whose readings count, in the present part
	sumSent, sumVolume float64
	held               time.Duration // for which they have sent at least half of what they need more, in each period
}

// part is a part of a trial.
type part int

const (
	taking    part = iota // the others lose a little
	granting              // the tried are given all
	returning             // the others are given back all, to see whether the tried lose it again
)

// learn updates the capacity with a period's readings.
func (w *waterfill) learn(k *moment, link *Link) {
	c, r := &w.capacity, &w.bits
	v, n := r.volume(), looks(link.Period)
	if c.silent += k.period; v.shown >= c.shown {
		c.silent = v.silent
	}
	if link.Uncontrolled { // what is uncontrolled may fill the link, and no trial would tell
		c.silent = 0
	}
	c.note(k.now, v, n)
	if v.starved && !c.trial.on {
		c.cut = math.Inf(1)
	}
	switch {
	case c.trial.on:
		r.tried(k, c, v, n, link.Period)
	case c.mayTry(n) && !v.blind && !link.Uncontrolled && r.try(k, c, v, n):
	default:
		c.rise(k.now, v, n, link.Period)
	}
}

// try begins a trial if somebody lacks something and the volume is constant, but for those who lack what they are known to want; it reports
// whether it did. All who lack something are tried together, so that many cost no more than one; those who rise will say by themselves what
// they want.
func (r *resource) try(k *moment, c *capacity, v volume, looks int) bool {
	low, mean, high := c.lately(looks)
	if high-low > max(little*mean, surely*v.noise) {
		if !r.steady(looks) {
			return false
		}
		mean = v.bits // what passed before may have gone into the link's queue
	}
	l := r.lacking(k, looks)
	carries := c.carries(k.now, mean, v.noise)
	if l.missing+l.more < much*(carries-mean) {
		return false // the link would have to have become so much smaller, and carry just what all ask of it
	}
	noise := l.noise * math.Sqrt(1/float64(looks)+k.meanNoise*k.meanNoise) // of the gain
	step := max(worthwhile*mean, certainly*l.noise)
	if l.known > 0 {
		step = max(step, 2*min(certainly*noise, l.known)) // so that half of it is what they have to gain
	}
	step = min(step+l.short, l.others/2)
	if !l.due || step < little*c.hat {
		return false
	}
	c.stop()
	gain, most := max(min(step/2, l.missing), certainly*noise), l.most
	if l.known > 0 {
		most = l.known
	}
	gain = max(min(gain, most), surely*noise)
	c.trial = trial{
		on: true, from: k.now, began: k.now, step: step, level: l.others - step, before: c.hat, volume: mean, free: v.free,
		sent: l.sent, enough: l.sent + gain, atOnce: l.sent + certainly*l.noise,
	}
	c.set(c.hat)
	if !l.doubtful && l.missing < directly*step && (carries == mean || c.lowers(carries)) {
		c.trial.gained = c.trial.enough // unless they send that, the link may carry less than it did
		r.grant(k, c, carries)
	}
	return true
}

// lacking is what a trial is about: the sums over those who are tried, and over all others.
type lacking struct {
	sent, noise float64 // what the tried send, and its standard deviation,
	missing     float64 // what they lack,
	known       float64 // of that, what they are known to want,
	short       float64 // and of their guarantees, compared with the last readings
	most        float64 // what they may send more until they have their guarantees
	others      float64 // what the others send above their guarantees,
	more        float64 // and what the link may keep those from sending that do not pause
	due         bool    // one of the tried has waited long enough since a trial failed
	doubtful    bool    // a trial has failed of one that is not known to want what it lacks
}

// lacking marks those who are to be tried, and sums up.
func (r *resource) lacking(k *moment, looks int) (l lacking) {
	for i := range r.tracked {
		t, u, in, promised := &r.tracked[i], &r.usages[i], r.force[i], r.promised[i]
		sent := max(t.mean, (t.prev+t.last)/2) // neither a mean that lags nor a single reading
		lacks := t.lack.wants(t, in, promised) - sent
		known := t.lack.known(t, in, promised)
		if t.lack.tried = u.known && t.lack.ticks >= looks && t.mayLack(lacks, k.taken); !t.lack.tried {
			l.others += max(0, (t.prev+t.last)/2-min(u.guarantee, t.share))
			if u.guarantee == 0 || sent >= promised {
				l.more += max(0, in-sent)
			} else if t.lack.ticks > 0 {
				l.more += max(0, lacks)
			}
			continue
		}
		l.due = l.due || t.lack.due(k, t, in, promised)
		l.most += max(0, min(promised, in)-sent)
		if l.missing += lacks; known {
			l.known += lacks
			l.short += max(0, min(t.lack.want, in, promised)-u.sent)
		} else {
			l.doubtful = l.doubtful || t.lack.wait > 0
		}
		l.sent += sent
		l.noise += t.noise * t.noise * u.sent * u.sent
	}
	l.noise = math.Sqrt(l.noise)
	return l
}

// steady reports whether the volume is constant but for those who lack what they are known to want.
func (r *resource) steady(looks int) bool {
	last, prev, noise, some := 0.0, 0.0, 0.0, false
	for i := range r.tracked {
		t, u := &r.tracked[i], &r.usages[i]
		if u.guarantee > 0 && u.known && t.lack.ticks >= looks && t.lack.known(t, r.force[i], r.promised[i]) {
			some = true
			continue
		}
		if math.Abs(t.mean-t.slow) > trendNoise*t.noise*t.mean {
			return false // it comes or goes
		}
		last, prev = last+t.last, prev+t.prev
		noise += t.noise * t.noise * u.sent * u.sent
	}
	return some && math.Abs(last-prev) <= max(little*last, surely*math.Sqrt(noise))
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
	sent := 0.0
	for i := range r.tracked {
		if r.tracked[i].lack.tried {
			sent += r.usages[i].sent
		}
	}
	if tr.held += period; sent < tr.sent+(tr.enough-tr.sent)/2 {
		tr.held = 0
	}
	tr.sumSent += sent
	tr.ticks++
	tr.sumVolume += v.bits
	n := float64(tr.ticks)
	mean := tr.sumSent / n
	gained, risen := mean >= tr.enough, tr.sumVolume/n > tr.volume+tr.step/2+v.noise
	lost := mean <= tr.gained-(tr.gained-tr.sent)/2
	late := over >= trialTime || over >= trialTime/2 && mean < tr.sent+(tr.enough-tr.sent)/2
	switch known, soon := tr.ticks >= looks, tr.ticks >= looks-1; {
	case soon && tr.part == taking && gained && !risen:
		tr.gained = mean
		carries := tr.volume
		if less(tr.free, c.peakFree, v.noise) { // otherwise the others send as before, and nothing but the link is why there is less
			carries = c.carries(k.now, tr.volume, v.noise)
		}
		r.grant(k, c, carries)
	case (soon && lost || known && late && !gained) && tr.part == granting && tr.granted > tr.volume:
		r.grant(k, c, tr.volume)
	case (known || soon && mean >= tr.atOnce) && tr.part == granting && gained && tr.held >= shortly:
		tr.gained, tr.cut = mean, r.cut()
		if max(tr.granted, c.peak.bits) < trialTwice*tr.before { // it has not carried more lately
			tr.turn(k.now, returning)
			c.set(tr.before)
			return
		}
		r.found(k, c)
	case soon && tr.part == returning && lost:
		c.set(max(leastCarried*c.speed, tr.granted))
		r.found(k, c)
	case known && late:
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

// turn begins a part of the trial.
func (tr *trial) turn(now time.Time, p part) {
	tr.part, tr.began, tr.ticks, tr.held, tr.sumSent, tr.sumVolume = p, now, 0, 0, 0, 0
}

// grant gives the tried all that they may want, on a link taken for so much.
func (r *resource) grant(k *moment, c *capacity, carries float64) {
	c.trial.turn(k.now, granting)
	if c.trial.granted = carries; c.lowers(carries) {
		c.set(max(leastCarried*c.speed, carries))
	}
}

// lowers reports whether a volume is so small that limits are not why the link is full.
func (c *capacity) lowers(volume float64) bool { return volume < trialBelow*handedOut*c.trial.before }

// failed ends a trial without a change: the tried want no more.
func (r *resource) failed(k *moment, c *capacity) {
	c.trial.on = false
	c.set(c.trial.before)
	for i := range r.tracked {
		if t := &r.tracked[i]; t.lack.tried && t.lack.ticks > 0 { // one that stopped meanwhile has shown nothing
			t.lack.fail(k.now, t, r.force[i], r.promised[i])
		}
	}
}

// cut is what the tried still lack of their guarantees.
func (r *resource) cut() (sum float64) {
	for i := range r.tracked {
		if t := &r.tracked[i]; t.lack.tried {
			sum += max(0, r.usages[i].guarantee-max(t.mean, t.last, t.prev))
		}
	}
	return sum
}

// found ends a trial that has shown what the link carries.
func (r *resource) found(k *moment, c *capacity) {
	c.trial.on = false
	c.wait = second
	fell, shown := c.hat < c.trial.before, 0
	c.lower(k.now, c.hat)
	c.peak.bits = min(c.peak.bits, c.hat) // what it carried before says nothing more
	c.cut = c.trial.cut
	for i := range r.tracked {
		l := &r.tracked[i].lack
		if l.shows = l.tried || l.shows && !fell; l.shows {
			shown++
		}
		if l.tried {
			l.wait, l.ticks = 0, 0
		}
	}
	if c.silent = 0; fell || c.shown > 0 {
		c.shown = shown
	}
}
