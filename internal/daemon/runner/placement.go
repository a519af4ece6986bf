package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/base/calls"
	"sluice/internal/control/loop"
	"sluice/internal/model"
)

// Source provides Snapshots.
type Source interface {
	Snapshot(ctx context.Context) (*model.Snapshot, error)
}

// Actuator carries out Steps. Do returns nil when the Step's result is in place, else why it is not.
type Actuator interface {
	Do(ctx context.Context, s model.Step) error
}

// Placement drives a loop.Core in real time: it takes Snapshots, starts every Step in its own goroutine with its own deadline,
// and publishes a View after every change.
type Placement struct {
	Core     *loop.Core
	Source   Source
	Actuator Actuator
	Sample   time.Duration // time between Snapshots
	Limits   *Bandwidth    // receives each Snapshot and the decisions; nil: nothing is limited
	Log      *slog.Logger
	Publish  func(*model.View) // gets a View that is not changed afterwards
	Alive    func()            // called after every observation, successful or not: for the watchdog

	calls   calls.Queue
	results chan result
	seen    chan observation
	steps   sync.WaitGroup                // Steps and the observation under way
	lastErr string                        // why the host cannot be observed; "" if it can
	blind   repeats                       // rate limit of its log lines
	trouble string                        // of the journal, as last logged
	cancels map[uint64]context.CancelFunc // of Steps under way
}

type result struct {
	step model.Step
	took time.Duration
	err  error
}

type observation struct {
	snap *model.Snapshot
	err  error
}

// stopGrace is how long Run waits for Moves under way when it is told to stop. Those that are not over by then are in the
// journal.
const stopGrace = 10 * time.Second

// Init must be called before Run and Call.
func (r *Placement) Init() *Placement {
	r.calls = make(calls.Queue)
	r.results = make(chan result, 64)
	r.seen = make(chan observation, 1)
	r.cancels = map[uint64]context.CancelFunc{}
	return r
}

// Call runs f inside the loop, where f may use the Core, and waits for it and for the View that shows what it has changed.
func (r *Placement) Call(ctx context.Context, f func(now time.Time)) error {
	return r.calls.Do(ctx, func(now time.Time) {
		f(now)
		r.publish()
	})
}

// Run works until ctx ends.
func (r *Placement) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.Sample)
	defer ticker.Stop()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	watching := r.observe(ctx)
	for {
		r.arm(timer)
		select {
		case <-ctx.Done():
			return r.stop()
		case <-ticker.C:
			if watching {
				r.Core.Missed() // the last observation is still under way: do not start another
				continue
			}
			watching = r.observe(ctx)
		case o := <-r.seen:
			watching = false
			if ctx.Err() == nil { // else it may say only that this ends
				r.decide(time.Now(), o)
			}
		case res := <-r.results:
			r.finish(res)
			for more := true; more; { // one View for all results that are in
				select {
				case res = <-r.results:
					r.finish(res)
				default:
					more = false
				}
			}
			r.publish()
		case <-timer.C:
			r.launch(r.Core.Timer(time.Now()))
		case f := <-r.calls:
			f(time.Now())
		}
	}
}

func (r *Placement) finish(res result) {
	r.report(res)
	delete(r.cancels, res.step.ID)
	r.launch(r.Core.Finish(time.Now(), res.step.ID, res.err))
}

// observe takes a Snapshot without blocking the loop.
func (r *Placement) observe(ctx context.Context) bool {
	r.steps.Add(1)
	go func() {
		defer r.steps.Done()
		ctx, cancel := context.WithTimeout(ctx, max(10*r.Sample, 10*time.Second))
		defer cancel()
		s, err := r.Source.Snapshot(ctx)
		r.seen <- observation{s, err}
	}()
	return true
}

func (r *Placement) decide(now time.Time, o observation) {
	if r.Alive != nil {
		r.Alive() // a long absence of libvirt must not get the daemon killed
	}
	if o.err != nil {
		// The host's state is unknown: change nothing new, but continue what is under way.
		if r.blind.due(now, o.err.Error()) {
			r.Log.Error("cannot observe the host; nothing is changed until that works again", "error", o.err)
		}
		r.lastErr = o.err.Error()
		r.launch(r.Core.Timer(now))
		r.publish()
		return
	}
	if r.blind.over() {
		r.Log.Info("the host can be observed again")
		r.lastErr = ""
	}
	start := time.Now()
	steps := r.Core.Tick(now, o.snap)
	r.Core.Took(time.Since(start))
	for _, id := range r.Core.GiveUp() {
		if cancel := r.cancels[id]; cancel != nil {
			cancel()
		}
	}
	r.launch(steps)
	r.tellLimits(now)
	r.publish()
}

// tellLimits passes observations and decisions to the bandwidth controller.
func (r *Placement) tellLimits(now time.Time) {
	if r.Limits == nil {
		return
	}
	if w := r.Core.World(); w.Snapshot != nil {
		r.Limits.Follow(now, w)
	}
}

// launch starts each Step with its own deadline. A Step outlives the loop's context: half a Step is worse than a late one.
func (r *Placement) launch(steps []model.Step) {
	for _, s := range steps {
		r.steps.Add(1)
		ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
		r.cancels[s.ID] = cancel
		go func() {
			defer r.steps.Done()
			defer cancel()
			start := time.Now()
			err := r.Actuator.Do(ctx, s)
			if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				err = fmt.Errorf("no success within %s: %w", s.Timeout, err)
			}
			r.results <- result{s, time.Since(start), err}
		}()
	}
}

func (r *Placement) report(res result) {
	l := r.Log.With("vm", res.step.Subject.VMName, "vf", res.step.VFID().String(), "step", res.step.String(), "took", res.took)
	if res.err != nil {
		l.Warn("step failed", "error", res.err)
	} else {
		l.Debug("step done")
	}
}

// publish logs what has ended and publishes a new View.
func (r *Placement) publish() {
	for _, m := range r.Core.Ended() {
		l := r.Log.With("vm", m.Move.VMName, "vf", m.Move.VF.String(), "move", string(m.Move.Kind), "cause", m.Move.Cause.String(),
			"reason", m.Move.Reason.String(), "figures", m.Move.Reason.FiguresText(), "took", m.Ended.Sub(m.Started))
		if m.Error != "" {
			l.Warn("move failed", "error", m.Error)
		} else {
			l.Info("move done")
		}
	}
	r.tellTrouble()
	if r.Publish != nil {
		v := r.Core.View()
		if r.Limits != nil {
			v.Bandwidth = r.Limits.View()
		}
		for _, text := range []string{r.lastErr, r.trouble} {
			if text != "" {
				v.Errors = append(v.Errors, text)
			}
		}
		r.Publish(v)
	}
}

// tellTrouble logs once when Moves cannot be journaled, and when they can again.
func (r *Placement) tellTrouble() {
	text := ""
	if err := r.Core.Trouble(); err != nil {
		text = "no VF is moved, only repairs are made: " + err.Error()
	}
	switch text {
	case r.trouble:
	case "":
		r.Log.Info("the journal can be written again")
	default:
		r.Log.Error(text)
	}
	r.trouble = text
}

// arm sets the timer to the next due Step.
func (r *Placement) arm(t *time.Timer) {
	next := r.Core.Wake()
	wait := time.Hour
	if !next.IsZero() {
		wait = max(0, time.Until(next))
	}
	t.Reset(wait)
}

// stop lets Moves under way end, or be undone, and begins no new ones. A Move that is not over within the grace period leaves
// both paths of its VM open for the next run to finish.
func (r *Placement) stop() error {
	r.Core.Stop()
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	r.launch(r.Core.Timer(time.Now())) // the last result may have left something to start
	for !r.Core.Settled() {
		r.arm(timer)
		select {
		case res := <-r.results:
			r.finish(res)
			r.publish()
		case <-timer.C:
			r.launch(r.Core.Timer(time.Now()))
		case <-grace.C:
			r.Log.Warn("stopping with moves under way; their VMs stay reachable on both paths until the next start finishes or undoes them")
			return nil
		}
	}
	done := make(chan struct{})
	go func() { r.steps.Wait(); close(done) }()
	select {
	case <-done: // the last observation has ended too
	case <-grace.C:
		r.Log.Warn("stopping before the last observation of the host has ended")
	}
	return nil
}
