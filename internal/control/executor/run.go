package executor

import (
	"errors"
	"time"

	"sluice/internal/model"
)

// Run is a Move under way. Those who read it must not change it.
//
// It is not a reconcile.Object, and shares only its Backoff: it is a place in a list of Steps, which goes forward, back to retry
// and over to the Steps that undo, and what is wanted never changes on the way.
type Run struct {
	model.MoveStatus
	Failed model.Step // the Step whose failure is undone; zero when none failed for good

	key       string
	stepID    uint64    // of the Step under way; 0: none is
	retryAt   time.Time // when the next may start
	back      int       // how often it went back some Steps to retry
	cause     error     // why it is being undone
	cancel    error     // why it is to be taken back at the next chance
	journaled bool
}

func (r *Run) step() *model.Step { return &r.Move.Steps[r.Step] }

// Over says that nothing of it remains to be done.
func (r *Run) Over() bool { return !r.Ended.IsZero() }

// Cause is why it was undone; nil for one that worked.
func (r *Run) Cause() error { return r.cause }

// Cancelled says that it was taken back because somebody wanted it so.
func (r *Run) Cancelled() bool { return errors.Is(r.cause, ErrCancelled) }

// Now is the Step under way or due next.
func (r *Run) Now() model.Step { return *r.step() }

// begins notes that the Step under way is tried.
func (r *Run) begins(now time.Time) {
	if n := len(r.Times); n > 0 && r.Times[n-1].To.IsZero() {
		r.Times[n-1].Tries++
		return
	}
	r.Times = append(r.Times, model.StepTime{Kind: r.step().Kind, From: now, Tries: 1, Undo: r.Undoing})
}

// failed notes why a try of the Step under way did not work.
func (r *Run) failed(err error) {
	if n := len(r.Times); n > 0 && err != nil {
		r.Times[n-1].Error = err.Error()
	}
}

// leaves notes that the last Step that began is not tried again.
func (r *Run) leaves(now time.Time) {
	if n := len(r.Times); n > 0 && r.Times[n-1].To.IsZero() {
		r.Times[n-1].To = now
	}
}
