package bandwidth

// keep returns the limit in force instead of a new one that differs little from it, as long as the guarantees and the sum are
// kept. room is by how much the retained limits may still exceed the shares. While a probe runs, raises are always applied, and
// while a trial runs all changes: they are small, and the result is meaningful only if all of them are in effect.
func (r *resource) keep(k *moment, i int, limit float64, enough bool, room *float64) float64 {
	t, in, over := &r.tracked[i], r.force[i], 0.0
	t.kept += k.period
	if !enough {
		over = max(0, in-limit)
	}
	if over <= *room && r.staysNear(i, limit, enough) && k.trial == nil && !(k.probing && limit > in) {
		*room -= over
		return in
	}
	if limit != in {
		t.kept = 0
	}
	return limit
}

// staysNear reports whether the limit in force is close enough to the new one, given how long it has been in force.
func (r *resource) staysNear(i int, limit float64, enough bool) bool {
	was, kept := r.force[i], r.tracked[i].kept
	change := limit/was - 1
	switch {
	case was > r.usages[i].limit || was < r.promised[i]:
		return false
	case enough:
		return change > -clearly && (change < clearly || kept < spareRest)
	case change < 0:
		return change > -slightly
	case change < little:
		return true
	case change < slightly:
		return kept < second
	case change < raiseSoon:
		return kept < soon
	}
	return change < much && kept < shortly
}
