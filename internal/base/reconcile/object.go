package reconcile

import "time"

// Object is the reconciliation state of one object, whose state has type S. In the zero Object nothing has been attempted. The
// owner decides what the object should be and whether that differs from what it is: rates, for example, are compared with a
// tolerance.
type Object[S any] struct {
	Want   S         // the desired state
	Has    S         // the actual state, from the last successful attempt or a later observation; valid only if Known
	Known  bool      // Has was observed or established
	At     time.Time // when Has became known
	Failed Failure

	pending  bool
	attempt  uint64    // number of the last attempt
	deadline time.Time // of the pending attempt: no result is expected after it; zero: no deadline
	asked    S         // the state that it establishes
	changed  bool      // the object has changed since the attempt began
	ended    time.Time // when the last result arrived, whether it counted or not
}

// Failure describes consecutive failures; zero if the last attempt did not fail.
type Failure struct {
	Count int
	Until time.Time // end of the back-off
	Err   error     // of the last one
}

// Fail records another failure and begins its back-off.
func (f *Failure) Fail(now time.Time, err error, b Backoff) {
	f.Count++
	f.Until, f.Err = now.Add(b.After(f.Count)), err
}

// Resting reports whether the back-off after a failure lasts.
func (f *Failure) Resting(now time.Time) bool { return now.Before(f.Until) }

// Change records that the object is no longer the same, for example because another enforcer took over: it clears failures, and
// the result of the pending attempt will not count. A new desired state alone is not a change.
func (o *Object[S]) Change() {
	o.Failed = Failure{}
	o.changed = o.pending
}

// Pending reports whether the result of an attempt is still expected.
func (o *Object[S]) Pending(now time.Time) bool {
	return o.pending && (o.deadline.IsZero() || now.Before(o.deadline))
}

// Ready reports whether an attempt may begin.
func (o *Object[S]) Ready(now time.Time) bool { return !o.Pending(now) && !o.Failed.Resting(now) }

// Begin records the start of an attempt to establish Want, and returns its number, which is never 0. After the deadline, if there
// is one, another attempt may begin, and from then on the result of this one does not count.
func (o *Object[S]) Begin(deadline time.Time) uint64 {
	o.attempt++
	o.pending, o.deadline, o.asked, o.changed = true, deadline, o.Want, false
	return o.attempt
}

// End records the result of an attempt and reports whether it counts. After success the object is in the state requested when the
// attempt began; after failure it backs off.
func (o *Object[S]) End(now time.Time, attempt uint64, err error, b Backoff) bool {
	if !o.pending || attempt != o.attempt {
		return false
	}
	o.pending, o.ended = false, now
	switch {
	case o.changed:
		return false
	case err != nil:
		o.Failed.Fail(now, err, b)
	default:
		o.Has, o.Known, o.At, o.Failed = o.asked, true, now, Failure{}
	}
	return true
}

// Saw records an observation and when it began, and reports whether it counts. Observations during an attempt, or begun before
// the last one ended, may be out of date.
func (o *Object[S]) Saw(began time.Time, has S) bool {
	if o.pending || !began.After(o.ended) || began.Before(o.At) {
		return false
	}
	o.Has, o.Known, o.At = has, true, began
	return true
}
