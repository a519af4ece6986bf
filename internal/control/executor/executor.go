package executor

import (
	"errors"
	"slices"
	"strings"
	"time"

	"sluice/internal/base/reconcile"
	"sluice/internal/model"
)

// Journal remembers Moves under way across a crash. Begin is called before the first
// Step of a Move, End when nothing of it remains to be done.
type Journal interface {
	Begin(m model.Move) error
	End(m model.Move) error
}

// Options say how often a Step is tried.
type Options struct {
	Retries int           // tries beyond the first
	Delay   time.Duration // before the first retry; doubles up to a minute
}

// ErrCancelled marks the cause of a Run that was cancelled.
var ErrCancelled = errors.New("cancelled")

// Executor has the Moves under way. It is not safe for concurrent use.
type Executor struct {
	opts    Options
	journal Journal
	runs    map[string]*Run // by Subject
	order   []*Run          // the same, sorted by Subject
	steps   map[uint64]*Run // by the Step under way
	nextID  uint64
	moves   uint64 // that began
	retries uint64
}

// New makes an Executor with nothing under way.
func New(o Options, j Journal) *Executor {
	return &Executor{opts: o, journal: j, runs: map[string]*Run{}, steps: map[uint64]*Run{}}
}

// SetOptions counts from the next result on.
func (e *Executor) SetOptions(o Options) { e.opts = o }

// Begin writes a Move with Steps down and starts it: the result is its first Step. Its
// Subject must be free. Where the journal refuses, nothing is begun: a crash would leave
// behind what nobody knows of.
func (e *Executor) Begin(now time.Time, m model.Move) (model.Step, error) {
	if err := e.journal.Begin(m); err != nil {
		return model.Step{}, err
	}
	r := e.take(now, m)
	r.journaled = true
	return e.start(now, r), nil
}

// Do is Begin without the journal, for a Move that a crash may cut short: what it is
// about shows again by itself.
func (e *Executor) Do(now time.Time, m model.Move) model.Step { return e.start(now, e.take(now, m)) }

// Resume goes on with a Move that the journal has already; Due starts it.
func (e *Executor) Resume(now time.Time, m model.Move) { e.take(now, m).journaled = true }

// Forget takes a Move out of the journal that is not resumed.
func (e *Executor) Forget(m model.Move) { _ = e.journal.End(m) }

func (e *Executor) take(now time.Time, m model.Move) *Run {
	e.moves++
	r := &Run{MoveStatus: model.MoveStatus{ID: e.moves, Move: m, Started: now}, key: Key(m), retryAt: now}
	e.runs[r.key] = r
	e.order = slices.Insert(e.order, e.place(r.key), r)
	return r
}

// place is where a Subject stands, or would stand, in the order.
func (e *Executor) place(key string) int {
	i, _ := slices.BinarySearchFunc(e.order, key, func(r *Run, key string) int { return strings.Compare(r.key, key) })
	return i
}

// Key is that of the Subject of a Move with Steps.
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

// Due returns the Steps that can start by now: those after one that worked, and retries.
func (e *Executor) Due(now time.Time) []model.Step {
	var out []model.Step
	for _, r := range e.order {
		if r.stepID == 0 && !now.Before(r.retryAt) {
			out = append(out, e.start(now, r))
		}
	}
	return out
}

// Wake is the next time at which a Step is due; zero when none is.
func (e *Executor) Wake() time.Time {
	var next time.Time
	for _, r := range e.runs {
		if r.stepID == 0 && (next.IsZero() || r.retryAt.Before(next)) {
			next = r.retryAt
		}
	}
	return next
}

// Runs lists what is under way in order of Subject. The list is the Executor's own and
// good until the next call that begins, finishes or cancels something.
func (e *Executor) Runs() []*Run { return e.order }

// Run is the one that works on a Subject, or nil.
func (e *Executor) Run(key string) *Run { return e.runs[key] }

// Len counts what is under way.
func (e *Executor) Len() int { return len(e.runs) }

// Retries counts tries beyond the first of each Step.
func (e *Executor) Retries() uint64 { return e.retries }

// Cancel takes a Run back as soon as that is safe: at once, after the Step under way,
// or not at all where its Steps say that it is better finished. Where the Step under
// way only waits, its ID is returned: it may be given up.
func (e *Executor) Cancel(now time.Time, r *Run, why error) (giveUp uint64) {
	if r.Undoing || r.cancel != nil || !r.step().Flow.Turns {
		return 0
	}
	r.cancel = errors.Join(ErrCancelled, why)
	switch {
	case r.stepID == 0:
		e.undo(now, r, r.cancel)
	case r.step().Flow.Waits:
		return r.stepID
	}
	return 0
}

// Finish takes the result of a Step and returns its Run, which may be over by that
// (Over says so) or on its way back (Undoing). Results of Steps that it does not know
// are ignored: nil.
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
	case r.Undoing && r.Try < e.opts.Retries && !errors.Is(err, model.ErrGone):
		e.again(now, r)
	case r.Undoing && errors.Is(err, model.ErrGone):
		e.advance(now, r, 1)
	case r.Undoing:
		// What cannot be undone is passed over, with what needs it: the next look at the
		// world shows it.
		e.advance(now, r, 1+r.step().Flow.Skip)
	default:
		r.Failed = *r.step()
		r.Failed.ID = id
		e.undo(now, r, err)
	}
	return r
}

// advance goes on some Steps later, or ends the Run.
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
		// The Steps before it count their own tries, so this one's are counted apart.
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

// undo turns a Run into the Steps that leave the world sound.
func (e *Executor) undo(now time.Time, r *Run, cause error) {
	at := r.step()
	r.cause, r.Undoing = cause, true
	r.Error = string(at.Kind) + ": " + cause.Error()
	r.Move.Steps = r.Move.UndoAt(r.Step, errors.Is(cause, model.ErrGone))
	r.Step = -1
	e.advance(now, r, 1)
}

// end closes the books on a Run.
func (e *Executor) end(now time.Time, r *Run) {
	delete(e.runs, r.key)
	i := e.place(r.key)
	e.order = slices.Delete(e.order, i, i+1)
	if r.journaled {
		_ = e.journal.End(r.Move) // one that stays in the journal is resumed, found done, and ended again
	}
	r.Ended = now
	if r.cause == nil {
		r.Error = "" // of a try before the one that worked
	}
}
