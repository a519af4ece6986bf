package reconcile

import "time"

// Object is the account of one object, whose state is an S. The zero Object is one that nothing was tried with.
// What an Object wants and whether that differs from what it has is the owner's to say: rates, for example, are
// compared with a tolerance.
type Object[S any] struct {
	Want   S         // the desired state
	Has    S         // the actual one, as the last attempt that worked, or a later look, left it; only if Known
	Known  bool      // Has was seen or made
	At     time.Time // when Has became known
	Failed Failure

	pending  bool
	attempt  uint64    // the number of the last one
	deadline time.Time // of the one under way: no result is expected after it; zero: there is none
	asked    S         // what it brings about
	changed  bool      // the object has changed since it began
	ended    time.Time // when the last result came, whether it counted or not
}

// Failure is what failed in a row; zero: nothing did.
type Failure struct {
	Count int
	Until time.Time // the object rests until then
	Err   error     // the last one
}

// Change says that the object is not the one that it was, for example that another enforcer holds it now: failures are
// forgotten, and the result of the attempt under way will not count. A new desired state alone is not a change.
func (o *Object[S]) Change() {
	o.Failed = Failure{}
	o.changed = o.pending
}

// Pending says whether an attempt is under way whose result is still expected.
func (o *Object[S]) Pending(now time.Time) bool {
	return o.pending && (o.deadline.IsZero() || now.Before(o.deadline))
}

// Resting says whether it is too early to try again after a failure.
func (o *Object[S]) Resting(now time.Time) bool { return now.Before(o.Failed.Until) }

// Ready says whether an attempt may begin.
func (o *Object[S]) Ready(now time.Time) bool { return !o.Pending(now) && !o.Resting(now) }

// Begin notes that an attempt to bring about what is wanted begins, and returns its number, which is never 0. After the
// deadline, if there is one, another attempt may begin; from then on the result of this one does not count.
func (o *Object[S]) Begin(deadline time.Time) uint64 {
	o.attempt++
	o.pending, o.deadline, o.asked, o.changed = true, deadline, o.Want, false
	return o.attempt
}

// End takes the result of an attempt and says whether it counts. After one that worked the object has what was asked for when
// the attempt began; one that failed makes it rest.
func (o *Object[S]) End(now time.Time, attempt uint64, err error, b Backoff) bool {
	if !o.pending || attempt != o.attempt {
		return false
	}
	o.pending, o.ended = false, now
	switch {
	case o.changed:
		return false
	case err != nil:
		o.Fail(now, err, b)
	default:
		o.Has, o.Known, o.At, o.Failed = o.asked, true, now, Failure{}
	}
	return true
}

// Fail notes a failure, of an attempt that took no time too, and makes the object rest.
func (o *Object[S]) Fail(now time.Time, err error, b Backoff) {
	n := o.Failed.Count + 1
	o.Failed = Failure{Count: n, Until: now.Add(b.After(n)), Err: err}
}

// Saw takes what a look at the world showed, and when that look began, and says whether it counts: what was seen while an
// attempt is under way, or before the last one ended, may be out of date.
func (o *Object[S]) Saw(began time.Time, has S) bool {
	if o.pending || !began.After(o.ended) || began.Before(o.At) {
		return false
	}
	o.Has, o.Known, o.At = has, true, began
	return true
}
