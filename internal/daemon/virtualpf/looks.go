package virtualpf

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"sluice/internal/control/vpf"
)

// looks lets all who wait for a look at the host share the next one that begins, so that looks follow each other, no more
// often than looksPerSecond for long.
type looks struct {
	look  Look
	one   chan struct{} // has what looks
	pace  *rate.Limiter
	queue chan *turn // has the turn that has not begun, or nil
}

// turn is one look.
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

// fresh returns what a look showed that began after the call.
func (l *looks) fresh(ctx context.Context) (vpf.World, error) {
	t := <-l.queue
	leads := t == nil
	if leads {
		t = &turn{done: make(chan struct{})}
	}
	l.queue <- t
	if leads {
		l.run(context.WithoutCancel(ctx), t) // it is not this caller's alone
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
	_ = l.pace.Wait(ctx) // it does not end
	<-l.queue
	l.queue <- nil // who asks from now on gets the next one
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	t.world, t.err = l.look(ctx, true)
	close(t.done)
}

// lookWithin is how long a look may take.
const lookWithin = 5 * time.Second
