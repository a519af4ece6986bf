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

// keep leaves limits as they are that would hardly change, as long as guarantees and the sum hold. What a probe hands out more
// is hardly more, and all of it has to be there for the probe to tell anything.
func (r *resource) keep(k *moment) {
	room := keepOver * k.capacity
	for i, l := range r.limits {
		t, over := &r.tracked[i], 0.0
		t.kept += k.seconds
		if !r.enough(i) {
			over = max(0, r.force[i]-l)
		}
		if r.near(i) && over <= room && !((k.probing || k.trial) && l > r.force[i]) {
			room -= over
			r.limits[i] = r.force[i]
		} else if l != r.force[i] {
			t.kept = 0
		}
	}
}

// enough says whether a sender's share is all that it demands. Its limit is then above its share, for growth.
func (r *resource) enough(i int) bool { return r.share[i] >= r.tracked[i].demand*(1-rounding) }

const rounding = 1e-9 // of sums

// near says whether the limit in force still does.
func (r *resource) near(i int) bool {
	t, was := &r.tracked[i], r.force[i]
	change := r.limits[i]/was - 1
	switch {
	case was > r.usages[i].limit || was < r.promised[i]:
		return false
	case r.enough(i):
		return change > -roomAtOnce && (change < roomAtOnce || t.kept < later/2)
	case change < 0:
		return change > -lowerAtOnce
	case change < raiseLast:
		return true
	case change < raiseLater:
		return t.kept < later
	case change < raiseSoon:
		return t.kept < soon
	}
	return t.kept < rest
}
