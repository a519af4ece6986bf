package bandwidth

// The constants of hysteresis. A change of a limit costs a call to the kernel, a driver or a guest.
const (
	raiseSoon   = 0.10 // relative: a limit that rises by so much rises once it has rested, since what
	raiseLater  = 0.02 // guarantees leave comes and goes; by so much after soon
	raiseLast   = 0.005
	rest        = 0.19  // s
	soon        = 0.25  // s
	later       = 1.0   // s: by raiseLast after that
	lowerAtOnce = 0.02  // a limit that falls by less stays while there is room
	roomAtOnce  = 0.05  // the same, either way, of one that has enough
	keepOver    = 0.003 // of the capacity: how far limits that stay too high may exceed the shares together
)

// rounding is what sums may be off by, relative.
const rounding = 1e-9

// keep returns the limit in force instead of one that differs little from it, as long as guarantees and the sum hold. room is what
// the limits that stay may still exceed the shares by. What a probe hands out more is little more, and all of it has to be there for
// the probe to tell anything.
func (r *resource) keep(k *moment, i int, limit float64, enough bool, room *float64) float64 {
	t, in, over := &r.tracked[i], r.force[i], 0.0
	t.kept += k.seconds
	if !enough {
		over = max(0, in-limit)
	}
	if over <= *room && r.staysNear(i, limit, enough) && !((k.probing || k.trial) && limit > in) {
		*room -= over
		return in
	}
	if limit != in {
		t.kept = 0
	}
	return limit
}

// staysNear says whether the limit in force is near enough to a new one, for as long as it has stood.
func (r *resource) staysNear(i int, limit float64, enough bool) bool {
	was, kept := r.force[i], r.tracked[i].kept
	change := limit/was - 1
	switch {
	case was > r.usages[i].limit || was < r.promised[i]:
		return false
	case enough:
		return change > -roomAtOnce && (change < roomAtOnce || kept < later/2)
	case change < 0:
		return change > -lowerAtOnce
	case change < raiseLast:
		return true
	case change < raiseLater:
		return kept < later
	case change < raiseSoon:
		return kept < soon
	}
	return kept < rest
}
