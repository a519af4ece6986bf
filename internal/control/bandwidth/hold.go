package bandwidth

import "time"

// hold keeps a guarantee reserved for a sender that has asked for it although its readings now say less: on a full link a
// reading does not show the demand. Without it a squeezed sender would be taken for one of low demand, its part would go to
// those that squeeze it, and so on.
type hold struct {
	until   time.Time
	blocked time.Time     // no hold for a fall before this time
	backoff time.Duration // after the next hold that proves useless
	fell    float64       // the reading before the fall that caused the hold
}

// keep raises the demand of a guaranteed sender to its guarantee while that is held.
func (h *hold) keep(k *moment, c *usage, t *tracked, m float64, grew bool) float64 {
	switch {
	case !k.full || m < holdActive*c.guarantee:
		h.until, h.fell = time.Time{}, 0
	case grew || t.hungry:
		h.until, h.fell, h.backoff = k.now.Add(holdTime), 0, 0
	case m < holdFall*t.last && k.now.After(h.blocked) && k.now.After(h.until):
		h.until, h.fell = k.now.Add(holdTime), t.last
	case h.fell > 0 && m >= holdFall*h.fell:
		h.fell, h.backoff = 0, 0
	}
	if h.fell > 0 && !k.now.Before(h.until) { // the fall was its own choice
		h.fell = 0
		h.backoff = min(holdLast, max(holdFirst, 2*h.backoff))
		h.blocked = k.now.Add(h.backoff)
	}
	if k.now.Before(h.until) {
		return max(t.demand, min(c.guarantee, c.limit))
	}
	return t.demand
}
