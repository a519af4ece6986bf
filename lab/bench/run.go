package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"
)

// warmUp is how long flows run before the measurement starts.
const warmUp = time.Second

// bench is the state that all runs share.
type bench struct {
	bed    *bed
	sink   *sink
	by     enforcer
	period time.Duration
	cc     string
	trace  io.Writer
}

// run measures a scenario under an allocator.
func (b *bench) run(ctx context.Context, sc *scenario, allocator string) (result, error) {
	if err := b.sink.idle(ctx); err != nil {
		return result{}, err
	}
	ctl, err := b.control(sc, allocator)
	if err != nil {
		return result{}, err
	}
	defer ctl.end()
	if ctl.trace = b.trace; b.trace != nil {
		fmt.Fprintln(b.trace, sc.name, allocator)
	}
	sources := make([]*source, len(sc.guests))
	for i := range sources {
		to := sinkListen
		if peer := sc.guests[i].to; peer > 0 {
			if to, err = b.sink.inGuest(peer - 1); err != nil {
				return result{}, err
			}
		}
		if sources[i], err = dial(i, &sc.guests[i], b.cc, to); err != nil {
			return result{}, err
		}
	}
	tr := &trace{begin: time.Now().Add(warmUp)}
	if o, ok := ctl.alloc.(*oracle); ok {
		o.began = tr.begin
	}
	end := tr.begin.Add(sc.length)
	err = b.drive(ctx, sc, ctl, sources, tr, end)
	again := uint64(0)
	for _, s := range sources {
		again += s.close()
	}
	if err != nil {
		return result{}, err
	}
	r := score(sc, tr)
	r.Again, r.Late = again, ctl.late
	r.Changes = float64(ctl.changes) / (warmUp + sc.length).Seconds() / float64(len(sc.guests))
	r.Tick = float64(ctl.took.Microseconds()) / float64(max(1, ctl.ticks))
	r.Found = timeToFind(sc, tr.begin, ctl.capacity)
	return r, nil
}

// control returns the controller with the enforcer of the allocator.
func (b *bench) control(sc *scenario, allocator string) (*controller, error) {
	for i := range sc.guests {
		if err := b.by.set(i, math.Inf(1)); err != nil {
			return nil, err
		}
	}
	if allocator != treeName {
		return newController(b.bed, sc, b.by, allocator, b.period)
	}
	t, err := newTree(b.bed, sc)
	if err != nil {
		return nil, err
	}
	c, err := newController(b.bed, sc, t, "waterfill", b.period)
	if err != nil {
		return nil, err
	}
	c.tree = t
	c.inForce[0] = handedOut * linkBits
	return c, nil
}

// drive runs the sources and the controller until the end.
func (b *bench) drive(ctx context.Context, sc *scenario, ctl *controller, sources []*source, tr *trace, end time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	var all sync.WaitGroup
	var controlled, fallen error
	if sc.cold > 0 {
		if err := b.bed.setLink(sc.capacity(0), "change"); err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
	}
	all.Go(func() { controlled = ctl.run(end) })
	all.Go(func() { tr.samples = b.sink.watch(ctx) })
	for i, src := range sources {
		all.Go(func() { src.run(&sc.guests[i], tr.begin, end) })
	}
	if sc.fall > 0 {
		all.Go(func() {
			time.Sleep(time.Until(tr.begin.Add(sc.fall)))
			fallen = b.bed.setLink(sc.capacity(sc.fall), "change")
		})
	}
	all.Wait()
	if sc.fall > 0 || sc.cold > 0 {
		fallen = errors.Join(fallen, b.bed.setLink(linkBits, "change"))
	}
	if err := errors.Join(controlled, fallen); err != nil {
		return fmt.Errorf("%s: %w", sc.name, err)
	}
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
