package fleet

import (
	"context"
	"errors"
	"fmt"

	"sluice/api/v1"
)

// mostPasses bounds how often Publish reads the ledger: once for each provider's existence, inventory and traits, for claims, and a few
// more for what others write meanwhile.
const mostPasses = 12

var errUnobserved = errors.New("the daemon has not observed the host yet: nothing is changed")

// Publish brings the ledger to what the host offers. If that is what it says already, nothing is written.
func Publish(ctx context.Context, l Ledger, h Host, c *api.HostCapacity) (plan Plan, writes int, err error) {
	if c.Observed.IsZero() {
		return plan, 0, errUnobserved
	}
	o := OfferOf(h, c)
	var consumers []string
	for i := range o.Promises {
		if id := o.Promises[i].Consumer; id != "" {
			consumers = append(consumers, id)
		}
	}
	for pass := range mostPasses {
		state, err := l.Tree(ctx, h.ID, pass > 0, consumers...)
		if err != nil {
			return plan, writes, err
		}
		if plan, err = Decide(&o, &state); err != nil || len(plan.Requests) == 0 {
			return plan, writes, err
		}
		if pass == 0 {
			continue
		}
		for _, r := range plan.Requests {
			err := l.Do(ctx, r)
			writes++
			if errors.Is(err, ErrStale) || errors.Is(err, ErrFull) || errors.Is(err, ErrInUse) {
				break // somebody else was faster: look again
			}
			if errors.Is(err, ErrTaken) {
				err = fmt.Errorf("%w; if two hosts have the same name, give one another with --host-name; if this host has a new UUID, "+
					"delete what it had", err)
			}
			if err != nil {
				return plan, writes, fmt.Errorf("%s: %w", r, err)
			}
		}
	}
	return plan, writes, errors.New("others write to the same providers all the time; the next round tries again")
}
