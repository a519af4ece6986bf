package history

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// Past is the input for replaying the last hour.
type Past struct {
	Rules    model.Rules     `json:"rules"`
	Snapshot *model.Snapshot `json:"snapshot"` // the last one
	Load     api.History     `json:"load"`     // with bytes
}

// WhatIf has compute determine what other policies would have achieved in the last hour: only on request, one computation
// at a time, and at most one per interval. Run does the work.
type WhatIf struct {
	memory  *Memory
	compute func(context.Context, *Past) ([]api.PolicyResult, error)
	every   time.Duration
	now     func() time.Time
	todo    chan *model.View

	mu     sync.Mutex
	answer api.WhatIf
	asked  time.Time // when the last computation began
}

// Limits of a computation.
const (
	WhatIfEvery   = 5 * time.Minute
	whatIfTimeout = 4 * time.Minute
	leastSteps    = 6 // of history
)

// NewWhatIf returns a WhatIf that computes at most once per every, measured by the clock now.
func NewWhatIf(m *Memory, every time.Duration, now func() time.Time,
	compute func(context.Context, *Past) ([]api.PolicyResult, error),
) *WhatIf {
	return &WhatIf{memory: m, compute: compute, every: every, now: now, todo: make(chan *model.View, 1)}
}

// WhatIf implements server.WhatIf: it returns the last result at once, and starts a new computation if one is due.
func (w *WhatIf) WhatIf(v *model.View) api.WhatIf {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.answer.Running && (w.asked.IsZero() || w.now().Sub(w.asked) >= w.every) {
		w.asked, w.answer.Running = w.now(), true
		w.todo <- v // never blocks: no computation is under way
	}
	answer := w.answer
	answer.Current = v.Rules.Policy
	if !answer.To.IsZero() {
		answer.Age = max(0, w.now().Sub(answer.To).Seconds())
	}
	return answer
}

// Run runs the computations until ctx ends.
func (w *WhatIf) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case v := <-w.todo:
			w.work(ctx, v)
		}
	}
}

func (w *WhatIf) work(ctx context.Context, v *model.View) {
	past := &Past{Rules: v.Rules, Snapshot: v.Snapshot, Load: w.memory.History(answer.HistoryQuery{Bytes: true})}
	past.Load.Moves, past.Load.Holdings, past.Load.Links = nil, nil, nil
	var list []api.PolicyResult
	err := error(errShort)
	if past.Load.To.Sub(past.Load.From) >= leastSteps*Step {
		ctx, cancel := context.WithTimeout(ctx, whatIfTimeout)
		defer cancel()
		list, err = w.compute(ctx, past)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer.Running, w.answer.Error, w.answer.Remedy = false, "", ""
	if err != nil {
		w.answer.Error, w.answer.Remedy = explain(err)
		if errors.Is(err, errShort) {
			w.asked = time.Time{} // nothing was computed
		}
		return
	}
	w.answer.From, w.answer.To, w.answer.Computed, w.answer.Policies = past.Load.From, past.Load.To, w.now(), list
}

var errShort = &api.Error{Text: "less than a minute has been recorded so far", Remedy: "try again in a minute"}

func explain(err error) (text, remedy string) {
	var e *api.Error
	switch {
	case errors.As(err, &e):
		return e.Text, e.Remedy
	case errors.Is(err, context.DeadlineExceeded):
		return "what other policies would have achieved could not be computed within " + whatIfTimeout.String(),
			"try again when the host is less busy, or replay a recording: `sluice record` and `sluice sim --trace`"
	}
	return err.Error(), "see the daemon's log: journalctl -u sluice"
}
