package bandwidth

import (
	"math"
	"time"
)

// capacity is the measured capacity of a link. It never exceeds the link's speed, and starts there: a link that is not full
// does not show its capacity. It falls at once to a volume that does not rise although senders that were at their limits now
// lack part of them. It rises by probes if the volume rises with them.
type capacity struct {
	speed   float64
	hat     float64
	volumes [plateauTicks]volume
	n       int     // number of volumes since hat changed
	sum     float64 // of volumes while senders were at their limits, since hat changed,
	pressed int     // and the number of those

	probing bool
	before  float64 // hat before the probe or trial
	carried float64 // mean volume before it
	step    float64
	wait    time.Duration
	next    time.Time // of the next probe

	trial trial
}

// volume is what a link carried in a period, bits/s.
type volume struct {
	bits    float64
	noise   float64 // standard deviation, from those of its senders
	blind   bool    // some senders have no reading: they are assumed to send on
	pressed bool    // some senders are at their limits
	short   float64 // what senders that were at their limits now lack of them
	fallen  float64 // bits/s of guaranteed senders that suddenly send much less than before,
	lack    float64 // what they lack of that,
	theirs  float64 // their guarantees,
	others  float64 // and the guarantees of all others
}

// begin adopts a link's speed. If it changes because senders that cannot be limited take a part of the link, the capacity
// changes by the same amount.
func (c *capacity) begin(speed float64) {
	if speed == c.speed {
		return
	}
	change := speed - c.speed
	c.hat, c.before = lowered(c.hat, change, speed), lowered(c.before, change, speed)
	c.speed = speed
}

// lowered is a capacity after a change of the speed.
func lowered(hat, change, speed float64) float64 {
	return max(leastCarried*speed, min(speed, hat+change))
}

// see updates the capacity with a period's volume.
func (c *capacity) see(now time.Time, v volume) {
	c.volumes[c.n%plateauTicks] = v
	c.n++
	if v.pressed {
		c.sum += v.bits
		c.pressed++
	}
	if c.trial.on {
		c.tried(now, v)
		return
	}
	if c.n < plateauTicks {
		return
	}
	low, mid, high := c.lastVolumes()
	plateau := high-low <= max(plateauFlat*mid, plateauNoise*v.noise) && high < plateauBelow*handedOut*c.hat
	switch {
	case plateau && c.short(handedOut*c.hat-mid):
		c.fell(now, mid)
	case plateau && c.suspect(now, v, low):
		c.try(now, v, mid)
	case low > c.hat+v.noise:
		c.set(min(c.speed, mid))
	case c.probing:
		c.judge(now, v.noise)
	case c.hat < c.speed && !now.Before(c.next) && c.pressed >= c.enough(v.noise):
		c.probing, c.before, c.carried = true, c.hat, min(handedOut*c.hat, c.sum/float64(c.pressed)) // retained limits exceed it slightly
		c.set(min(c.speed, c.hat*(1+c.step)))
	}
}

// judge ends a probe once it is clear whether the volume has risen with it.
func (c *capacity) judge(now time.Time, noise float64) {
	risen := c.sum/float64(max(1, c.pressed)) - c.carried
	switch enough := c.enough(noise); {
	case c.pressed >= enough && risen >= probeGain*handedOut*(c.hat-c.before):
		c.probing, c.wait, c.step, c.next = false, probeFirst, min(2*c.step, probeSteps*probeStep), now
	case c.pressed >= enough || c.n >= 2*enough:
		c.fell(now, c.before)
	}
}

// enough is the number of volumes needed to detect a step despite the noise.
func (c *capacity) enough(noise float64) int {
	z := probeSure * noise / (max(c.step, probeStep) * c.hat)
	return min(probeTicks, max(plateauTicks, int(z*z)))
}

// fell lowers the capacity to hat, until a probe raises it.
func (c *capacity) fell(now time.Time, hat float64) {
	if c.probing {
		c.wait = min(probeLast, 2*c.wait)
	} else {
		c.wait = probeFirst
	}
	c.probing, c.step, c.next = false, probeStep, now.Add(c.wait)
	c.set(min(hat, c.hat))
}

func (c *capacity) set(hat float64) { c.hat, c.n, c.sum, c.pressed = hat, 0, 0, 0 }

func (c *capacity) lastVolumes() (low, mid, high float64) {
	a, b, d := c.volumes[0].bits, c.volumes[1].bits, c.volumes[2].bits
	low, high = min(a, b, d), max(a, b, d)
	return low, a + b + d - low - high, high
}

// short reports whether in most periods, and on average, too much was lacking, beyond noise, and enough of it to explain why so
// many bits/s of what was handed out were unused: if most of those were not asked for, the rest were not either.
func (c *capacity) short(unused float64) bool {
	ticks, sum, noise := 0, 0.0, 0.0
	for _, v := range c.volumes {
		sum += v.short
		noise += v.noise * v.noise
		if v.short > plateauShort*c.hat {
			ticks++
		}
	}
	return ticks >= plateauMost && sum > plateauSure*math.Sqrt(noise) && sum > plateauWhy*plateauTicks*unused
}

// volume sums up a period. While there is spare capacity, a sender that sends less than before wants less.
func (r *resource) volume(seconds float64) (v volume) {
	for i := range r.tracked {
		t, c := &r.tracked[i], &r.usages[i]
		v.bits += c.sent
		v.blind = v.blind || !c.known
		if d := t.noise * c.sent; c.known {
			v.noise += d * d
		}
		if t.fell > 0 {
			v.fallen += c.sent
			v.lack += t.fell - c.sent
			v.theirs += c.guarantee
		} else {
			v.others += c.guarantee
		}
		if !c.known || r.spare > 0 || t.bound < boundLeast {
			continue
		}
		if could := min(t.settled(seconds), t.reached); c.sent >= stopped*could {
			v.short += could - c.sent
			v.pressed = true
		}
	}
	v.noise = math.Sqrt(v.noise)
	return v
}
