package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/api/v1"
	"sluice/internal/base/sleep"
)

// Round is one look of Run.
type Round struct {
	Unclaimed []Unclaimed
	Writes    int
	Err       error // why the ledger is not up to date; the next Round tries again
	Refused   int   // claims that the daemon does not keep, before this look
	Untold    error // why the daemon does not know what it is to keep
	Told      bool  // the daemon was told of something new; the next Round sees what became of it
}

// Daemon is the host's daemon; client.Client is one.
type Daemon interface {
	Capacity(ctx context.Context) (api.HostCapacity, error)
	SetClaims(ctx context.Context, claims []api.HostClaim) (api.Result, error)
}

// Once publishes what the daemon offers, and tells it what place and migrations have claimed at the host. Unless the ledger was read, the
// daemon is not told anything, and keeps what it was told before.
func Once(ctx context.Context, l Ledger, h Host, d Daemon) (r Round) {
	c, err := d.Capacity(ctx)
	if err != nil {
		r.Err = err
		return r
	}
	plan, writes, err := Publish(ctx, l, h, &c)
	r.Unclaimed, r.Writes, r.Err = plan.Unclaimed, writes, err
	if err != nil {
		return r
	}
	r.tell(ctx, d, &c, plan.Placed)
	r.Told = plan.News && r.Untold == nil
	if r.Untold == nil {
		r.mark(ctx, l, plan.Kept)
	}
	return r
}

// mark says of rooms that the daemon keeps them, which lets migrations begin. It must have just been told of them: what it said before may
// be outdated, since a VM that has just left the host may come back.
func (r *Round) mark(ctx context.Context, l Ledger, kept []Request) {
	for _, q := range kept {
		r.Writes++
		if err := l.Do(ctx, q); err != nil && !errors.Is(err, ErrStale) { // one that was ended or cancelled meanwhile is seen in the next Round
			r.Err = fmt.Errorf("%s: %w", q, err)
		}
	}
}

// tell tells the daemon, whose capacity is c, what is claimed at its host.
func (r *Round) tell(ctx context.Context, d Daemon, c *api.HostCapacity, claims []api.HostClaim) {
	for i := range c.Claims {
		if c.Claims[i].Refused != "" {
			r.Refused++
		}
	}
	if len(claims) == 0 && len(c.Claims) == 0 {
		return
	}
	if _, err := d.SetClaims(ctx, claims); err != nil {
		r.Untold = fmt.Errorf("the daemon is not told what is claimed here: %w", err)
	}
}

// soon is when a daemon that was told of claims is asked what it makes of them.
const soon = 2 * time.Second

// Run looks every so often until ctx ends, and soon after the daemon was told of something: a migration may wait for its answer. After
// each Round it calls done.
func Run(ctx context.Context, every time.Duration, look func(context.Context) Round, done func(*Round)) {
	for {
		r := look(ctx)
		if ctx.Err() != nil {
			return
		}
		done(&r)
		pause := every
		if r.Told {
			pause = min(pause, soon)
		}
		if sleep.For(ctx, pause) != nil {
			return
		}
	}
}

// Log tells what Rounds did: writes, guarantees without a claim, and failures, each when it is new.
type Log struct {
	Tell func(string)
	last map[string]bool
}

// Add tells of a Round.
func (l *Log) Add(r *Round) {
	if r.Writes > 0 && r.Err == nil {
		l.Tell(fmt.Sprintf("published, %d writes", r.Writes))
	}
	var lines []string
	for i := range r.Unclaimed {
		lines = append(lines, r.Unclaimed[i].String())
	}
	for _, err := range []error{r.Err, r.Untold} {
		if err != nil {
			lines = append(lines, err.Error())
		}
	}
	now := map[string]bool{}
	for _, line := range lines {
		if !l.last[line] && !now[line] {
			l.Tell(line)
		}
		now[line] = true
	}
	l.last = now
}
