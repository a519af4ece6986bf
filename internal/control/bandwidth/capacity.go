package bandwidth

import (
	"math"
	"time"
)

// capacity is what a link is taken to carry. It never exceeds the link's speed, and starts there: a link that is not full does not
// show its capacity. It falls only by a trial that finds guaranteed senders held down by the link, so that no sender without a
// guarantee can lower it. It rises at once to a volume that exceeds it, by probes if the volume rises with them, and to what full senders
// show once the link's speed is handed out, for a moment, when one of those no longer sends whose trial has lowered it.
type capacity struct {
	speed float64
	hat   float64

	volumes [lookMost]float64
	n       int     // number of volumes since hat changed
	sum     float64 // of volumes while what is handed out was used, since hat changed,
	used    int     // and the number of those

	probe   probe
	before  float64   // hat before the probe
	carried float64   // mean volume before it
	began   time.Time // the present part of the probe
	step    float64
	wait    time.Duration
	next    time.Time // of the next probe

	proven   highest // volume of the last second
	peak     highest // and of the last peakTime,
	peakFree float64 // and what senders without a guarantee sent of it

	cut    float64       // what the tried lacked of their guarantees when the last trial had succeeded; +Inf: others have come to lack more
	shown  int           // number of those whose trial has shown hat; 0: none, or the link was opened since
	silent time.Duration // for which one of them has sent nothing, or is gone

	trial trial
}

// probe is the state of a test of whether the link carries more.
type probe int

const (
	idle      probe = iota
	measuring       // the volume, with nothing retained of former limits
	raised          // the capacity
	opened          // the capacity to the speed: some no longer send for whom it was lowered
)

// volume is what a link carried in a period, bits/s.
type volume struct {
	bits    float64
	free    float64       // what senders without a guarantee sent of it
	noise   float64       // standard deviation, from those of its senders
	blind   bool          // some senders have no reading: they are assumed to send on
	pressed bool          // some senders are held down by their limits
	lack    bool          // a guaranteed sender lacks what it is known to want,
	starved bool          // and has done so for some periods, of its guarantee
	shown   int           // number of those whose trial has shown the capacity,
	silent  time.Duration // and the longest for which one of them has sent nothing
}

// begin adopts a link's speed. If it changes because senders that cannot be limited take a part of the link, the capacity
// changes by the same amount.
func (c *capacity) begin(speed float64) {
	if speed == c.speed {
		return
	}
	change := speed - c.speed
	c.hat, c.before, c.trial.before = lowered(c.hat, change, speed), lowered(c.before, change, speed), lowered(c.trial.before, change, speed)
	c.trial.granted = lowered(c.trial.granted, change, speed)
	c.speed, c.peak = speed, highest{}
}

// lowered is a capacity after a change of the speed.
func lowered(hat, change, speed float64) float64 {
	return max(leastCarried*speed, min(speed, hat+change))
}

// note records a period's volume.
func (c *capacity) note(now time.Time, v volume, looks int) {
	c.volumes[c.n%lookMost] = v.bits
	c.n++
	if c.n >= looks {
		low, _, _ := c.lately(looks)
		c.proven.see(now, low, second)
		if c.peak.see(now, low, peakTime) {
			c.peakFree = v.free
		}
	}
	if v.pressed && v.bits >= bound*handedOut*c.hat {
		c.sum += v.bits
		c.used++
	}
}

// carries is what the link is known to carry at least: a volume, or clearly more if it has carried that within peakTime.
func (c *capacity) carries(now time.Time, volume, noise float64) float64 {
	if now.Sub(c.peak.at) < peakTime && less(volume, c.peak.bits, noise) {
		return c.peak.bits
	}
	return volume
}

// less reports whether a volume is clearly less than another.
func less(volume, than, noise float64) bool { return volume < than-max(little*than, surely*noise) }

// highest is the highest of the volumes seen lately. Once it is too old, the present one takes its place.
type highest struct {
	bits float64
	at   time.Time
}

// see reports whether the present volume is the highest.
func (h *highest) see(now time.Time, bits float64, memory time.Duration) bool {
	if bits < h.bits && now.Sub(h.at) <= memory {
		return false
	}
	*h = highest{bits, now}
	return true
}

// looks is the number of periods after which a volume is known.
func looks(period time.Duration) int {
	return min(lookMost, max(lookLeast, int((lookTime+period-1)/period)))
}

// lately is the range and mean of the last n volumes.
func (c *capacity) lately(n int) (low, mean, high float64) {
	low = math.Inf(1)
	for i := range n {
		v := c.volumes[(c.n-1-i)%lookMost]
		low, high, mean = min(low, v), max(high, v), mean+v/float64(n)
	}
	return low, mean, high
}

// rise raises the capacity to what was carried, or by a probe.
func (c *capacity) rise(now time.Time, v volume, looks int, period time.Duration) {
	if c.n >= looks {
		if low, _, _ := c.lately(looks); low > c.hat+surely*v.noise {
			c.set(min(c.speed, low))
			c.probe = idle
			return
		}
	}
	late := now.Sub(c.began) >= probeTime
	enough, most := c.enough(v.noise, looks, period)
	switch {
	case c.probe == idle && c.hat < c.speed && c.shown > 0 && c.silent >= second:
		c.before = c.hat
		c.turn(now, opened, c.speed)
	case c.probe == idle && c.hat < c.speed && !now.Before(c.next):
		c.step = min(clearly, max(little, certainly*v.noise/(math.Sqrt(float64(most))*c.hat))) // to be found in the time there is
		c.before = c.hat
		c.turn(now, measuring, c.hat)
	case c.probe == opened:
		if v.lack && c.n >= looks || now.Sub(c.began) >= settleTime+time.Duration(looks+1)*period {
			c.close(now, looks)
		}
	case c.probe != idle && v.lack:
		c.fail(now)
	case c.probe == measuring && (c.used >= enough || late):
		c.raise(now, looks)
	case c.probe == raised && (c.used >= enough || late):
		c.judge(now, looks)
	}
}

// raise begins or goes on with a probe, from the volume at the present capacity.
func (c *capacity) raise(now time.Time, looks int) {
	c.before, c.carried = c.hat, handedOut*c.hat
	if c.used >= looks { // a guaranteed sender may have left some of it unused: then the link has carried more lately
		c.carried = min(c.carried, max(c.proven.bits, c.sum/float64(c.used)))
	}
	c.turn(now, raised, min(c.speed, c.hat*(1+c.step)))
}

// judge ends a probe. If what is handed out is not used, there is nothing against it.
func (c *capacity) judge(now time.Time, looks int) {
	if c.used >= looks {
		carried := c.sum / float64(c.used)
		if carried-c.carried < probeGain*handedOut*(c.hat-c.before) {
			c.fail(now)
			return
		}
		c.hat = min(c.hat, max(c.before, carried/handedOut)) // no more than it has shown
	}
	c.wait, c.step = second, min(2*c.step, clearly)
	if c.hat == c.speed {
		c.probe = idle
		return
	}
	c.raise(now, looks)
}

// fail ends a probe that has gone too far.
func (c *capacity) fail(now time.Time) {
	c.wait = min(probeLast, 2*c.wait)
	c.lower(now, c.before)
}

// close ends the time in which the link's speed is handed out, which happens once after a trial. The link is taken for what it
// carried then, if that is more than before: less shows nothing, since it may not have been full.
func (c *capacity) close(now time.Time, looks int) {
	c.shown = 0
	if low, _, _ := c.lately(looks); low < trialBelow*handedOut*c.speed {
		c.hat = max(c.before, low)
	}
	c.probe, c.next = idle, now.Add(c.wait)
	c.set(c.hat)
}

// turn begins a part of a probe.
func (c *capacity) turn(now time.Time, probe probe, hat float64) {
	c.probe, c.began = probe, now
	c.set(hat)
}

// enough is the number of volumes needed to detect a step despite the noise, and most how many there is time for.
func (c *capacity) enough(noise float64, looks int, period time.Duration) (enough, most int) {
	most = max(looks, int(probeTime/period))
	z := certainly * noise / (c.step * c.hat)
	enough = max(looks, int(z*z))
	if c.probe == raised { // while its queue fills, a link seems to carry everything
		enough = max(enough, int(queueTime.Seconds()/c.step/period.Seconds()))
	}
	return min(most, enough), most
}

// lower sets the capacity until a probe raises it.
func (c *capacity) lower(now time.Time, hat float64) {
	c.probe, c.next = idle, now.Add(c.wait)
	c.set(min(hat, c.hat))
}

func (c *capacity) set(hat float64) { c.hat, c.n, c.sum, c.used = hat, 0, 0, 0 }

// rest discards the observations, and ends a trial or probe, while nothing can be learned.
func (c *capacity) rest() {
	if c.trial.on {
		c.trial.on, c.hat = false, c.trial.before
	}
	c.stop()
	c.set(c.hat)
}

// stop ends a probe without a result.
func (c *capacity) stop() {
	if c.probe == raised || c.probe == opened {
		c.hat = c.before
	}
	c.probe = idle
}

// mayTry reports whether a trial may begin, also in the place of a probe while that measures, or while nobody uses what it hands out: such
// a probe would show nothing, and go on and on.
func (c *capacity) mayTry(looks int) bool {
	return (c.probe == idle || c.probe == measuring || c.probe == raised && c.used == 0) && c.n >= looks
}

// taken is the capacity assumed so far: neither a trial nor that the link's speed is handed out for a moment has an effect on it before it
// ends.
func (c *capacity) taken() float64 {
	switch {
	case c.trial.on:
		return c.trial.before
	case c.probe == opened:
		return c.before
	}
	return c.hat
}

// promise is the capacity by which guarantees are divided. If it is taken for less than their sum they are cut, by class, only by what the
// tried still lacked, until a sender lacks what it is known to want of its guarantee.
func (c *capacity) promise(guaranteed float64) float64 {
	return max(c.taken(), min(c.speed, guaranteed/handedOut)-c.cut)
}

// volume sums up a period.
func (r *resource) volume() (v volume) {
	for i := range r.tracked {
		t, c := &r.tracked[i], &r.usages[i]
		if v.bits += c.sent; c.guarantee == 0 {
			v.free += c.sent
		}
		v.blind = v.blind || !c.known
		v.pressed = v.pressed || c.known && r.spare <= 0 && t.hungry
		if c.guarantee > 0 && t.lack.ticks > 0 && t.lack.known(t, r.force[i], r.promised[i]) {
			v.lack = true
			v.starved = v.starved || t.lack.ticks >= lookMost && t.mean < (1-worthwhile)*r.promised[i]
		}
		if t.lack.shows {
			v.shown++
			v.silent = max(v.silent, t.lack.silent)
		}
		if d := t.noise * c.sent; c.known {
			v.noise += d * d
		}
	}
	v.noise = math.Sqrt(v.noise)
	return v
}
