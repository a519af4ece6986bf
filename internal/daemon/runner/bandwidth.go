package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"sluice/internal/control/bandwidth"
	"sluice/internal/control/loop"
	"sluice/internal/model"
)

// Counters reads the traffic counters of VMs' NICs, many times per second.
type Counters interface {
	// Follow takes from a Snapshot which devices belong to which NICs.
	Follow(*model.Snapshot)
	// Read appends the readings of all NICs to buf. Readings that are not available are missing, and the error says why.
	Read(ctx context.Context, buf []bandwidth.Reading) ([]bandwidth.Reading, error)
}

// Persistent is a loop.Enforcer whose Limits outlive the daemon without any Snapshot showing them.
type Persistent interface {
	// InPlace lists the Limits that are in place, as read back.
	InPlace(ctx context.Context, snap *model.Snapshot) ([]model.Limit, error)
}

// Sweeper is a loop.Enforcer that can remove leftovers of an earlier run that no Limit is about: on taps that no VM has, or trees
// to which no tap is directed. Nothing is removed in observe mode.
type Sweeper interface {
	Sweep(ctx context.Context, snap *model.Snapshot) error
}

// Slow is a loop.Enforcer whose Apply may take long, or hang, for one VM but not for another.
type Slow interface{ Slow() }

// Bandwidth drives a bandwidth.Core in real time: every period it reads counters, and has the enforcers apply the result. No
// enforcer delays the readings, or another enforcer.
type Bandwidth struct {
	Core      *bandwidth.Core
	Counters  Counters
	Enforcers []loop.Enforcer // in order of preference: each Limit goes to the first enforcer that supports it
	Period    time.Duration
	LiftAll   bool // when stopping lift contracts too
	Log       *slog.Logger

	mu     sync.Mutex // guards Core, Period, LiftAll and the fields down to pace
	snap   *model.Snapshot
	swept  bool // leftovers of an earlier run have been removed
	queues map[queueKey]*queue
	sweeps int       // number of sweeps that Follow began and that have not ended
	idle   sync.Cond // signals that a queue has emptied, or a sweep has ended
	failed map[queueKey]*repeats
	late   uint64
	took   time.Duration
	period time.Duration      // in effect
	pace   chan time.Duration // new periods

	buf   []bandwidth.Reading
	blind repeats
}

// queueKey identifies a queue, which applies one batch at a time: of an enforcer or, if that is slow, of one of its VMs.
type queueKey struct {
	by string
	vm model.VMID
}

func (k queueKey) String() string {
	if k.vm == "" {
		return k.by
	}
	return k.by + " of VM " + string(k.vm)
}

// queue holds what waits to be applied.
type queue struct {
	enforcer loop.Enforcer
	next     []bandwidth.Order
}

// Init must be called before any other method.
func (r *Bandwidth) Init() *Bandwidth {
	r.queues, r.failed, r.pace = map[queueKey]*queue{}, map[queueKey]*repeats{}, make(chan time.Duration, 1)
	r.idle.L, r.period = &r.mu, r.Period
	if r.Log == nil {
		r.Log = slog.New(slog.DiscardHandler)
	}
	return r
}

// Follow passes the placement loop's state to the controller. The Snapshot is not changed afterwards.
func (r *Bandwidth) Follow(now time.Time, w bandwidth.World) {
	r.Counters.Follow(w.Snapshot)
	w.Enforcer = r.choices(w.Snapshot)
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.snap == nil
	r.snap = w.Snapshot
	maps.DeleteFunc(r.failed, func(at queueKey, _ *repeats) bool { return at.vm != "" && w.Snapshot.FindVM(at.vm) == nil })
	r.Core.Follow(now, w)
	r.repace()
	sweep := !r.swept && r.Core.Enforces()
	r.swept = r.swept || sweep
	if first || sweep {
		r.sweeps++
		go func() { // both log their errors
			if first {
				_ = r.adopt(w.Snapshot)
			}
			if sweep {
				_ = r.Sweep(w.Snapshot)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.sweeps--
			r.idle.Broadcast()
		}()
	}
}

// Sweep removes leftovers of an earlier run that no Limit is about. It goes through the enforcers in reverse order, as taps are
// directed to trees and not vice versa.
func (r *Bandwidth) Sweep(snap *model.Snapshot) (failed error) {
	for _, e := range slices.Backward(r.Enforcers) {
		s, ok := e.(Sweeper)
		if !ok {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), limitDeadline)
		err := s.Sweep(ctx, snap)
		cancel()
		if err != nil {
			r.Log.Warn("leftovers of an earlier run may remain; `sluice fsck` lists them once no daemon runs", "enforcer", e.Name(), "error", err)
			failed = errors.Join(failed, fmt.Errorf("remove the leftovers of an earlier run in %s: %w", e.Name(), err))
		}
	}
	return failed
}

// adopt takes over the limits that an earlier run left, so that those that are not wanted are lifted.
func (r *Bandwidth) adopt(snap *model.Snapshot) (failed error) {
	for _, e := range r.Enforcers {
		s, ok := e.(Persistent)
		if !ok {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), limitDeadline)
		found, err := s.InPlace(ctx, snap)
		cancel()
		if err != nil {
			r.Log.Warn("cannot read which limits an earlier run left; unwanted ones may remain", "enforcer", e.Name(), "error", err)
			failed = errors.Join(failed, fmt.Errorf("read the limits in place in %s: %w", e.Name(), err))
		}
		r.mu.Lock()
		r.Core.Adopt(time.Now(), found)
		r.mu.Unlock()
	}
	return failed
}

// choice is the first enforcer that supports a Limit.
type choice struct {
	by  string
	can model.Tri
}

// choices asks the enforcers about every Limit that a Snapshot may need, so that Core.Follow waits for none of them while it
// holds the lock.
func (r *Bandwidth) choices(snap *model.Snapshot) func(model.LimitKey) (string, model.Tri) {
	made := make(map[model.LimitKey]choice, 4*len(snap.VMs)+len(snap.PFs))
	for key := range bandwidth.Limits(snap) {
		for _, e := range r.Enforcers {
			if can := e.Can(snap, key); can != model.No {
				made[key] = choice{e.Name(), can}
				break
			}
		}
	}
	return func(key model.LimitKey) (string, model.Tri) {
		if c, ok := made[key]; ok {
			return c.by, c.can
		}
		return "", model.No
	}
}

// Plug implements loop.Plugs.
func (r *Bandwidth) Plug(id model.NICID) (model.Rate, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Core.Plug(id)
}

// Expect implements loop.Plugs.
func (r *Bandwidth) Expect(id model.NICID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Core.Expect(id)
}

// Contained implements loop.Plugs.
func (r *Bandwidth) Contained() []bandwidth.Contained {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Core.Contained()
}

// View returns the controller's state.
func (r *Bandwidth) View() *model.Bandwidth {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.Core.View()
	v.Late, v.Took, v.Period = r.late, r.took, r.period
	return v
}

// SetOptions changes the options, including the period.
func (r *Bandwidth) SetOptions(o bandwidth.Options, liftAll bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.Core.SetOptions(o); err != nil {
		return err
	}
	r.LiftAll, r.Period = liftAll, o.Period
	r.repace()
	return nil
}

// quietPeriod is the time between two readings that are only for display.
const quietPeriod = time.Second

// repace tells Run about a changed period. mu is held.
func (r *Bandwidth) repace() {
	period := r.Period
	if r.Core.Quiet() {
		period = max(period, quietPeriod)
	}
	if period == r.period {
		return
	}
	r.period = period
	select {
	case <-r.pace: // an older one that Run has not received yet
	default:
	}
	r.pace <- period
}

// Run works until ctx ends, and then lifts what must be lifted.
func (r *Bandwidth) Run(ctx context.Context) error {
	r.mu.Lock()
	period := r.Period
	r.mu.Unlock()
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			r.stop()
			return nil
		case period = <-r.pace:
			ticker.Reset(period)
			last = time.Now()
		case due := <-ticker.C: // due is when it fired, however long the last period's work took
			r.tick(ctx, time.Now(), period, missed(due.Sub(last), period))
			last = due
		}
	}
}

// missed returns how many periods passed without a tick between two ticks that far apart.
func missed(apart, period time.Duration) uint64 {
	return uint64(max(0, apart-period/2) / period) //nolint:gosec // not negative
}

// tick runs one period.
func (r *Bandwidth) tick(ctx context.Context, now time.Time, period time.Duration, missed uint64) {
	read, cancel := context.WithTimeout(ctx, max(period, leastRead))
	buf, err := r.Counters.Read(read, r.buf[:0])
	cancel()
	r.buf = buf
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
		if r.blind.over() {
			r.Log.Info("counters can be read again")
		}
	case r.blind.due(now, err.Error()):
		r.Log.Error("counters cannot be read; NICs without counters may send what they are guaranteed, or a fair share", "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.snap == nil {
		return
	}
	if r.late += missed; len(buf) == 0 && err != nil {
		r.late++
	}
	r.dispatch(r.Core.Tick(time.Now(), buf))
	r.took = time.Since(now)
}

// leastRead is the minimum timeout of a reading.
const leastRead = 200 * time.Millisecond

// dispatch hands a batch to its enforcers. mu is held.
func (r *Bandwidth) dispatch(batch []bandwidth.Order) {
	for i := range batch {
		l := &batch[i]
		e := r.named(r.Core.By(l.LimitKey))
		if e == nil {
			continue
		}
		at := queueKey{by: e.Name()}
		if _, slow := e.(Slow); slow {
			at.vm = l.VM
		}
		q := r.queues[at]
		if q == nil {
			q = &queue{enforcer: e}
			r.queues[at] = q
			go r.enforce(at, q)
		}
		if k := slices.IndexFunc(q.next, func(o bandwidth.Order) bool { return o.LimitKey == l.LimitKey }); k >= 0 {
			q.next[k] = *l // the newer one replaces the one that is waiting
		} else {
			q.next = append(q.next, *l)
		}
	}
}

func (r *Bandwidth) named(name string) loop.Enforcer {
	i := slices.IndexFunc(r.Enforcers, func(e loop.Enforcer) bool { return e.Name() == name })
	if i < 0 {
		return nil
	}
	return r.Enforcers[i]
}

// limitDeadline is the timeout of a whole batch of Limits: a few netlink messages for each. slowDeadline is that of a batch of a
// Slow enforcer, which is for one VM, whose guest may be busy.
const (
	limitDeadline = 10 * time.Second
	slowDeadline  = time.Minute
)

// enforce applies what is in a queue until it is empty.
func (r *Bandwidth) enforce(at queueKey, q *queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(q.next) > 0 {
		batch, snap := q.next, r.snap
		q.next = nil
		r.mu.Unlock()
		deadline := limitDeadline
		if at.vm != "" {
			deadline = slowDeadline
		}
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		applied, err := q.enforcer.Apply(ctx, snap, bandwidth.LimitsOf(batch))
		cancel()
		r.mu.Lock()
		r.Core.Applied(time.Now(), batch, applied, err)
		r.report(at, len(batch)-len(applied), err)
	}
	delete(r.queues, at)
	r.idle.Broadcast()
}

// report logs errors of an enforcer without repeating them too often.
func (r *Bandwidth) report(at queueKey, failed int, err error) {
	p := r.failed[at]
	switch {
	case err == nil:
		delete(r.failed, at)
		return
	case p == nil:
		p = &repeats{}
		r.failed[at] = p
	}
	if p.due(time.Now(), err.Error()) {
		r.Log.Warn("limits could not be applied; trying again later", "enforcer", at.by, "vm", string(at.vm), "failed", failed, "error", err)
	}
}

// Lift cleans up after an earlier run: it lifts rates, and contracts too if LiftAll is set. It does not touch limits that are not
// in place. It must not be used together with Run.
func (r *Bandwidth) Lift(now time.Time, w bandwidth.World) error {
	w.Enforcer = r.choices(w.Snapshot)
	r.snap = w.Snapshot
	r.Core.Follow(now, w)
	err := r.adopt(w.Snapshot)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dispatch(r.Core.LiftLeft(now, r.LiftAll))
	r.drain()
	for at := range r.queues {
		err = errors.Join(err, fmt.Errorf("lift limits by %s: no answer within %s", at, stopWait))
	}
	for at := range r.failed {
		err = errors.Join(err, fmt.Errorf("lift limits by %s: not all could be lifted; the log says why", at))
	}
	return err
}

// stopWait is how long stopping waits for pending work of enforcers, and then again for the lifting.
const stopWait = 5 * time.Second

// stop lifts rates and, if LiftAll is set, contracts. It does not wait for an enforcer that does not return: its rates expire, or
// the next start lifts them.
func (r *Bandwidth) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain()
	r.dispatch(r.Core.Lift(r.LiftAll))
	r.drain()
	for at := range r.queues {
		r.Log.Warn("stopping before an enforcer of limits has answered", "enforcer", at.by, "vm", string(at.vm))
	}
}

// drain waits, at most stopWait, until all queues are empty and all sweeps have ended.
func (r *Bandwidth) drain() {
	over := false
	timer := time.AfterFunc(stopWait, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		over = true
		r.idle.Broadcast()
	})
	defer timer.Stop()
	for len(r.queues)+r.sweeps > 0 && !over {
		r.idle.Wait()
	}
}
