package executor

import (
	"errors"
	"slices"
	"strings"
	"time"

	"sluice/internal/base/reconcile"
	"sluice/internal/model"
)

// Journal remembers Moves under way across a crash. Begin is called before the first Step of a Move, End when nothing of it
// remains to be done.
type Journal interface {
	Begin(m model.Move) error
	End(m model.Move) error
}

// Options set how often a Step is tried.
type Options struct {
	Retries int           // tries beyond the first
	Delay   time.Duration // before the first retry; doubles up to a minute
}

// errCancelled is in the cause of a Run that was cancelled.
var errCancelled = errors.New("cancelled")

// Executor holds the Moves under way. It is not safe for concurrent use.
type Executor struct {
	opts    Options
	journal Journal
	runs    map[string]*Run // by Subject
	order   []*Run          // the same, sorted by Subject
	steps   map[uint64]*Run // by the Step under way
	nextID  uint64
	moves   uint64 // number of Moves begun
	retries uint64
}

// New makes an Executor with nothing under way.
func New(o Options, j Journal) *Executor {
	return &Executor{opts: o, journal: j, runs: map[string]*Run{}, steps: map[uint64]*Run{}}
}

// SetOptions applies from the next result on.
func (e *Executor) SetOptions(o Options) { e.opts = o }

// Begin journals a Move and starts it: the result is its first Step. The Move must have Steps and its Subject must be free. If
// the journal refuses, nothing is begun: a crash would leave behind state that nobody knows of.
func (e *Executor) Begin(now time.Time, m model.Move) (model.Step, error) {
	if err := e.journal.Begin(m); err != nil {
		return model.Step{}, err
	}
	r := e.add(now, m)
	r.journaled = true
	return e.start(now, r), nil
}

// Do is Begin without the journal, for a Move that a crash may cut short: the next Snapshot shows again why it was needed.
func (e *Executor) Do(now time.Time, m model.Move) model.Step { return e.start(now, e.add(now, m)) }

// Resume continues a Move that the journal has already; Due starts it.
func (e *Executor) Resume(now time.Time, m model.Move) { e.add(now, m).journaled = true }

// Forget removes a Move that is not resumed from the journal.
func (e *Executor) Forget(m model.Move) { _ = e.journal.End(m) }

func (e *Executor) add(now time.Time, m model.Move) *Run {
	e.moves++
	r := &Run{MoveStatus: model.MoveStatus{ID: e.moves, Move: m, Started: now}, key: Key(m), retryAt: now}
	e.runs[r.key] = r
	e.order = slices.Insert(e.order, e.place(r.key), r)
	return r
}

// place returns the index of a Subject in order, or where to insert it.
func (e *Executor) place(key string) int {
	i, _ := slices.BinarySearchFunc(e.order, key, func(r *Run, key string) int { return strings.Compare(r.key, key) })
	return i
}

// Key returns the key of the Subject of a Move, which must have Steps.
func Key(m model.Move) string { return m.Steps[0].Subject.Key() }

func (e *Executor) start(now time.Time, r *Run) model.Step {
	r.begins(now)
	e.nextID++
	r.stepID = e.nextID
	s := *r.step()
	s.ID = r.stepID
	e.steps[s.ID] = r
	return s
}

// Due returns the Steps that can start by now: those that follow a Step that succeeded, and retries.
func (e *Executor) Due(now time.Time) []model.Step {
	var out []model.Step
	for _, r := range e.order {
		if r.stepID == 0 && !now.Before(r.retryAt) {
			out = append(out, e.start(now, r))
		}
	}
	return out
}

// Wake returns the next time at which a Step is due; zero if none is.
func (e *Executor) Wake() time.Time {
	var next time.Time
	for _, r := range e.runs {
		if r.stepID == 0 && (next.IsZero() || r.retryAt.Before(next)) {
			next = r.retryAt
		}
	}
	return next
}

// Runs lists what is under way in order of Subject. The list belongs to the Executor and is valid until the next call that
// begins, finishes or cancels something.
func (e *Executor) Runs() []*Run { return e.order }

// Run returns the Run that works on a Subject, or nil.
func (e *Executor) Run(key string) *Run { return e.runs[key] }

// Len returns the number of Runs under way.
func (e *Executor) Len() int { return len(e.runs) }

// Retries returns the number of tries beyond the first of each Step.
func (e *Executor) Retries() uint64 { return e.retries }

// Cancel undoes a Run as soon as that is safe: at once, after the Step under way, or not at all if its Steps say that finishing
// is better. If the Step under way only waits, Cancel returns its ID: the caller may abort it.
func (e *Executor) Cancel(now time.Time, r *Run, why error) (giveUp uint64) {
	if r.Undoing || r.cancel != nil || !r.step().Flow.Turns {
		return 0
	}
	r.cancel = errors.Join(errCancelled, why)
	switch {
	case r.stepID == 0:
		e.undo(now, r, r.cancel)
	case r.step().Flow.Waits:
		return r.stepID
	}
	return 0
}

// Finish takes the result of a Step and returns its Run, which may have ended by that (see Over) or be undoing. It ignores
// results of unknown Steps and returns nil.
func (e *Executor) Finish(now time.Time, id uint64, err error) *Run {
	r := e.steps[id]
	if r == nil {
		return nil
	}
	delete(e.steps, id)
	r.stepID = 0
	r.failed(err)
	switch {
	case r.cancel != nil && !r.Undoing && r.step().Flow.Turns && !errors.Is(err, model.ErrGone):
		e.undo(now, r, r.cancel)
	case err == nil:
		e.advance(now, r, 1)
	case !r.Undoing && e.retry(now, r, err):
	case r.Undoing && r.Try < e.opts.Retries && !errors.Is(err, model.ErrGone) && !errors.Is(err, model.ErrPermanent):
		e.again(now, r)
	case r.Undoing && errors.Is(err, model.ErrGone):
		e.advance(now, r, 1)
	case r.Undoing:
		// A Step that cannot be undone is skipped, with those that depend on it: the next Snapshot shows what is left.
		e.advance(now, r, 1+r.step().Flow.Skip)
	default:
		r.Failed = *r.step()
		r.Failed.ID = id
		e.undo(now, r, err)
	}
	return r
}

// advance moves on by some Steps, or ends the Run.
func (e *Executor) advance(now time.Time, r *Run, by int) {
	r.leaves(now)
	r.Step += by
	r.Try, r.retryAt = 0, now
	if r.Step >= len(r.Move.Steps) {
		e.end(now, r)
	}
}

func (e *Executor) retry(now time.Time, r *Run, err error) bool {
	if r.Try >= e.opts.Retries || errors.Is(err, model.ErrPermanent) || errors.Is(err, model.ErrGone) {
		return false
	}
	r.Error = err.Error()
	if back := r.step().Flow.Retry; back > 0 {
		// The Steps before this one count their own tries, so its tries are counted separately.
		if r.back++; r.back > e.opts.Retries {
			return false
		}
		r.leaves(now)
		r.Step -= back
	}
	e.again(now, r)
	return true
}

// maxDelay is the longest wait before a retry, unless the first is longer.
const maxDelay = time.Minute

func (e *Executor) again(now time.Time, r *Run) {
	r.Try++
	r.retryAt = now.Add(reconcile.Backoff{First: e.opts.Delay, Most: maxDelay}.After(r.Try))
	e.retries++
}

// undo replaces the rest of a Run by the Steps that restore a consistent state.
func (e *Executor) undo(now time.Time, r *Run, cause error) {
	at := r.step()
	r.cause, r.Undoing = cause, true
	r.Error = string(at.Kind) + ": " + cause.Error()
	r.Move.Steps = r.Move.UndoAt(r.Step, errors.Is(cause, model.ErrGone))
	r.Step = -1
	e.advance(now, r, 1)
}

// end removes a finished Run and its journal entry.
func (e *Executor) end(now time.Time, r *Run) {
	delete(e.runs, r.key)
	i := e.place(r.key)
	e.order = slices.Delete(e.order, i, i+1)
	if r.journaled {
		_ = e.journal.End(r.Move) // a Move that stays in the journal is resumed, found done, and ended again
	}
	r.Ended = now
	if r.cause == nil {
		r.Error = "" // of a try before the one that succeeded
	}
}
