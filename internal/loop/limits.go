package loop

import (
	"context"
	"time"

	"sluice/internal/model"
)

// Enforcer applies Limits. It is no executor of Steps: what it applies is idempotent,
// takes no journal, and is compared with the next Snapshot. What it finds true already
// it leaves alone.
type Enforcer interface {
	// Name is what people and metrics call it, such as "max_tx_rate" or "htb".
	Name() string
	// Can says whether such a Limit can be had as the Snapshot shows the host: Unknown
	// where only trying tells. It must not look at anything else.
	Can(snap *model.Snapshot, key model.LimitKey) model.Tri
	// Apply makes a batch true (0 bits/s: lifts the limit) by ctx's deadline and returns
	// those that are, rounded as they were applied; err joins a model.LimitError for each other one.
	Apply(ctx context.Context, snap *model.Snapshot, batch []model.Limit) (now []model.Limit, err error)
}

// limitRest is how long a Limit that could not be applied waits until it is tried again.
const limitRest = 30 * time.Second

// Limits lists what an Enforcer is to apply now: what the Target wants, the last
// Snapshot does not show, and can be had.
func (c *Core) Limits(now time.Time, can func(*model.Snapshot, model.LimitKey) model.Tri) []model.Limit {
	if c.opts.Mode != model.ModeEnforce {
		return nil
	}
	var out []model.Limit
	for _, l := range c.limits {
		if last, failed := c.unmet[l.LimitKey]; failed && now.Sub(last) < limitRest {
			continue
		}
		if can(c.snap, l.LimitKey) != model.No {
			out = append(out, l)
		}
	}
	return out
}

// Limited takes what an Enforcer made of a batch: what is not among applied rests.
func (c *Core) Limited(now time.Time, batch, applied []model.Limit) {
	for _, l := range batch {
		c.unmet[l.LimitKey] = now
	}
	for _, l := range applied {
		delete(c.unmet, l.LimitKey)
	}
	for key, last := range c.unmet {
		if now.Sub(last) >= limitRest {
			delete(c.unmet, key)
		}
	}
}
