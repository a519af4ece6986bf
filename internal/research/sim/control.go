package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"sluice/internal/control/bandwidth"
	"sluice/internal/control/loop"
	"sluice/internal/model"
)

// errHung is the result of an enforcer that misses its deadline.
var errHung = errors.New("did not answer in time")

// applyTime is how long an enforcer may take for a batch.
const applyTime = 2 * time.Second

// StartControl makes e.Bandwidth work from now on: every period, and with each Snapshot.
func (e *Engine) StartControl(period time.Duration) {
	e.busy, e.queue = map[string]bool{}, map[string][]bandwidth.Order{}
	var tick func()
	tick = func() {
		e.At(e.World.Now.Add(period), tick)
		if e.Bandwidth != nil && e.followed {
			e.apply(e.Bandwidth.Tick(e.World.Now, e.World.Readings()))
		}
		if e.OnControl != nil {
			e.OnControl()
		}
	}
	e.At(e.World.Now.Add(period), tick)
}

// follow passes a Snapshot to the bandwidth controller.
func (e *Engine) follow(snap *model.Snapshot) {
	if e.Bandwidth == nil {
		return
	}
	w := bandwidth.World{Snapshot: snap}
	if e.Core != nil {
		w = e.Core.World()
	}
	w.Enforcer = func(k model.LimitKey) (string, model.Tri) { return e.enforcer(w.Snapshot, k) }
	first := !e.followed
	e.followed, e.seen = true, w.Snapshot
	e.Bandwidth.Follow(e.World.Now, w)
	if first { // limits that an earlier daemon left
		e.Bandwidth.Adopt(e.World.Now, e.World.standing())
	}
}

// enforcer returns the name of the enforcer for a Limit.
func (e *Engine) enforcer(snap *model.Snapshot, key model.LimitKey) (string, model.Tri) {
	for _, f := range e.World.Enforcers() {
		if can := f.Can(snap, key); can != model.No {
			return f.Name(), can
		}
	}
	return "", model.No
}

// apply gives each Limit to its enforcer. Limits for a busy enforcer wait.
func (e *Engine) apply(limits []bandwidth.Order) {
	if len(limits) == 0 {
		return
	}
	batches := map[string][]bandwidth.Order{}
	for _, l := range limits {
		by, _ := e.enforcer(e.seen, l.LimitKey)
		batches[by] = append(batches[by], l)
	}
	for _, f := range e.World.Enforcers() {
		switch batch := batches[f.Name()]; {
		case len(batch) == 0:
		case e.busy[f.Name()]:
			e.queue[f.Name()] = newest(e.queue[f.Name()], batch)
		default:
			e.enact(f, e.seen, batch)
		}
	}
}

// newest adds a batch to the waiting Limits, of which it replaces those with the same key.
func newest(waiting, batch []bandwidth.Order) []bandwidth.Order {
	waiting = slices.DeleteFunc(waiting, func(o bandwidth.Order) bool {
		return slices.ContainsFunc(batch, func(l bandwidth.Order) bool { return l.LimitKey == o.LimitKey })
	})
	return append(waiting, batch...)
}

// enact applies a batch after the time that this takes. What was begun takes effect even if the daemon is killed meanwhile.
func (e *Engine) enact(f loop.Enforcer, snap *model.Snapshot, batch []bandwidth.Order) {
	core, w := e.Bandwidth, e.World
	takes := w.traffic.Delay
	if w.traffic.Hang != nil {
		takes += w.traffic.Hang(f.Name())
	}
	if e.OnLimits != nil {
		e.OnLimits(f.Name(), bandwidth.LimitsOf(batch))
	}
	tell := func(applied []model.Limit, err error) {
		if core == e.Bandwidth && core != nil {
			core.Applied(w.Now, batch, applied, err)
		}
	}
	e.busy[f.Name()] = true
	if takes > applyTime {
		e.At(w.Now.Add(applyTime), func() { tell(nil, errHung) })
	}
	e.At(w.Now.Add(takes), func() {
		applied, err := f.Apply(context.Background(), snap, bandwidth.LimitsOf(batch))
		if takes <= applyTime {
			tell(applied, err)
		}
		if core == e.Bandwidth {
			e.busy[f.Name()] = false
			if next := e.queue[f.Name()]; len(next) > 0 {
				delete(e.queue, f.Name())
				e.enact(f, snap, next)
			}
		}
	})
}

// Lift makes the controller lift its limits and end, as at an orderly stop.
func (e *Engine) Lift(all bool) {
	if e.Bandwidth == nil {
		return
	}
	e.busy, e.queue = map[string]bool{}, map[string][]bandwidth.Order{}
	e.apply(e.Bandwidth.Lift(all))
	e.Bandwidth, e.followed = nil, false
}
