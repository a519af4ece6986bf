package fleet

import (
	"context"
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
}

// Run publishes what get returns every so often until ctx ends. After each Round it calls done.
func Run(
	ctx context.Context, l Ledger, h Host, every time.Duration, get func(context.Context) (api.HostCapacity, error), done func(*Round),
) {
	for {
		var r Round
		c, err := get(ctx)
		if err == nil {
			var plan Plan
			plan, r.Writes, err = Publish(ctx, l, h, &c)
			r.Unclaimed = plan.Unclaimed
		}
		if ctx.Err() != nil {
			return
		}
		r.Err = err
		done(&r)
		if sleep.For(ctx, every) != nil {
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
	if r.Err != nil {
		lines = append(lines, r.Err.Error())
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
