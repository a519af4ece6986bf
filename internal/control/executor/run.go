package executor

import (
	"errors"
	"time"

	"sluice/internal/model"
)

// Run is a Move under way. Callers must not change it.
//
// It is not a reconcile.Object, and shares only its Backoff: it is a position in a list of Steps that moves forward, back to
// retry, and over to the Steps that undo, while the goal never changes.
type Run struct {
	model.MoveStatus
	Failed model.Step // the Step whose failure is being undone; zero if none failed for good

	key       string
	stepID    uint64    // of the Step under way; 0: none
	retryAt   time.Time // when the next Step may start
	back      int       // how often it went back some Steps to retry
	cause     error     // why it is being undone
	cancel    error     // why it is to be undone as soon as possible
	journaled bool
}

func (r *Run) step() *model.Step { return &r.Move.Steps[r.Step] }

// Over reports whether nothing of it remains to be done.
func (r *Run) Over() bool { return !r.Ended.IsZero() }

// Cause returns why it was undone; nil for one that succeeded.
func (r *Run) Cause() error { return r.cause }

// Cancelled reports whether it was undone because it was cancelled.
func (r *Run) Cancelled() bool { return errors.Is(r.cause, errCancelled) }

// Now returns the Step that is under way or due next.
func (r *Run) Now() model.Step { return *r.step() }

// begins records a try of the current Step.
func (r *Run) begins(now time.Time) {
	if n := len(r.Times); n > 0 && r.Times[n-1].To.IsZero() {
		r.Times[n-1].Tries++
		return
	}
	r.Times = append(r.Times, model.StepTime{Kind: r.step().Kind, From: now, Tries: 1, Undo: r.Undoing})
}

// failed records why a try of the current Step failed; nil is ignored.
func (r *Run) failed(err error) {
	if n := len(r.Times); n > 0 && err != nil {
		r.Times[n-1].Error = err.Error()
	}
}

// leaves records that the last Step that began is not tried again.
func (r *Run) leaves(now time.Time) {
	if n := len(r.Times); n > 0 && r.Times[n-1].To.IsZero() {
		r.Times[n-1].To = now
	}
}
