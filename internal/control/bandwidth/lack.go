package bandwidth

import (
	"math"
	"time"
)

// lack is what a guaranteed sender misses of its guarantee, or of more that it had.
type lack struct {
	want   float64       // what it is known to want: it had that, and no trial or room on the link has shown that it wants less
	ticks  int           // for which it has missed something; negative: it had no limit yet
	kept   time.Duration // for which it has missed nothing
	tried  bool          // in the present trial, or the last
	shows  bool          // its trial has shown what the link is taken for
	silent time.Duration // for which it has sent nothing
	wait   time.Duration // after a trial that failed
	failed time.Time     // when the last one did,
	vain   bool          // and that was of what it is known to want, too
}

// see updates what a sender lacks. in is its limit, promised the part of its guarantee that can be kept.
func (l *lack) see(k *moment, c *usage, t *tracked, in, promised float64) {
	stopped := c.stopped(promised) // and not of its limit, which a trial raises
	if l.silent += k.period; !stopped {
		l.silent = 0
	}
	if stopped || k.room && !k.forced {
		l.want = t.mean
	} else if k.full && t.was < active*min(c.guarantee, promised) { // it wakes
		l.want = (1 - worthwhile) * promised
	} else {
		l.want = max(l.want, min(t.mean, t.was, t.last, t.prev)) // the least: for a moment it may catch up on what it could not send before
	}
	switch {
	case math.IsInf(in, 1):
		l.ticks = -1 // limits take effect in the course of the next period: its reading is of both
	case t.mean >= (1-worthwhile)*min(promised, in) && !l.known(t, in, promised):
		l.ticks = 0
		if l.kept += k.period; l.kept >= second {
			l.wait = 0
		}
	case stopped:
		l.ticks, l.kept = 0, 0
	default:
		l.ticks++
		l.kept = 0
	}
}

// known reports whether the sender lacks some of what it is known to want.
func (l *lack) known(t *tracked, in, promised float64) bool {
	share := worthwhile
	if t.mean >= promised {
		share = clearly
	}
	return t.mean < (1-share)*min(l.want, in)
}

// wants is what the sender has to reach for nothing to be lacking.
func (l *lack) wants(t *tracked, in, promised float64) float64 {
	most := promised
	if l.known(t, in, promised) {
		most = l.want
	}
	return (1 - worthwhile) * min(most, in)
}

// due reports whether a trial may begin with the sender.
func (l *lack) due(k *moment, t *tracked, in, promised float64) bool {
	wait := l.wait
	if l.known(t, in, promised) {
		if wait = 0; l.vain {
			wait = min(l.wait, second)
		}
	}
	return k.now.Sub(l.failed) >= wait
}

// fail notes that the sender does not want what it was tried for. It may lack at once what it had in the trial, when the others are back:
// that it wants that has just been seen.
func (l *lack) fail(now time.Time, t *tracked, in, promised float64) {
	l.vain = l.known(t, in, promised)
	l.wait = min(trialLast, max(trialTime, 2*l.wait))
	l.failed, l.want = now, t.mean
}
