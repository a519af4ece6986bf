package bandwidth

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
		return change > -roomAtOnce && (change < roomAtOnce || kept < spareRest)
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
