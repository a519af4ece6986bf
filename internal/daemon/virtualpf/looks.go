package virtualpf

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"sluice/internal/control/vpf"
)

// looks lets all goroutines that need a fresh observation of the host share the next one to start. Observations run one at a time, and
// no more often than looksPerSecond in the long run.
type looks struct {
	look  Look
	one   chan struct{} // held while observing
	pace  *rate.Limiter
	queue chan *turn // holds the turn that has not started, or nil
}

// turn is one observation.
type turn struct {
	done  chan struct{}
	world vpf.World
	err   error
}

func newLooks(look Look) *looks {
	l := &looks{look: look, one: make(chan struct{}, 1), pace: rate.NewLimiter(looksPerSecond, looksAtOnce), queue: make(chan *turn, 1)}
	l.queue <- nil
	return l
}

// fresh returns an observation that started after the call.
func (l *looks) fresh(ctx context.Context) (vpf.World, error) {
	t := <-l.queue
	leads := t == nil
	if leads {
		t = &turn{done: make(chan struct{})}
	}
	l.queue <- t
	if leads {
		l.run(context.WithoutCancel(ctx), t) // others may share it, so it must not end with this caller
	}
	select {
	case <-t.done:
		return t.world, t.err
	case <-ctx.Done():
		return vpf.World{}, ctx.Err()
	}
}

func (l *looks) run(ctx context.Context, t *turn) {
	l.one <- struct{}{}
	defer func() { <-l.one }()
	_ = l.pace.Wait(ctx) // ctx never ends
	<-l.queue
	l.queue <- nil // later callers get the next turn
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	t.world, t.err = l.look(ctx, true)
	close(t.done)
}

// lookWithin bounds the duration of one observation.
const lookWithin = 5 * time.Second
