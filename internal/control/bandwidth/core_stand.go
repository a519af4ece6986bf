package bandwidth

import (
	"errors"
	"fmt"
	"time"

	"sluice/internal/model"
)

// Order is a Limit that its enforcer is to apply. What came of it counts only until the same Limit is ordered again.
type Order struct {
	model.Limit
	number uint64 // of all that this Core ordered; 0: what comes of it does not count
}

// LimitsOf are the Limits of Orders.
func LimitsOf(batch []Order) []model.Limit {
	out := make([]model.Limit, len(batch))
	for i := range batch {
		out[i] = batch[i].Limit
	}
	return out
}

// Applied takes what became of a batch, or of a part of it: what is not among applied rests,
// and its NIC counts as one that nothing limits. What was ordered before another Order for the same was does not count.
func (c *Core) Applied(now time.Time, batch []Order, applied []model.Limit, err error) {
	reasons := map[model.LimitKey]error{}
	if err != nil {
		explain(err, reasons)
	}
	worked := make(map[model.LimitKey]bool, len(applied))
	for i := range applied {
		worked[applied[i].LimitKey] = true
	}
	for i := range batch {
		key := batch[i].LimitKey
		s := c.state(key)
		if s == nil || batch[i].number == 0 || batch[i].number != s.order {
			continue
		}
		var failed error
		if !worked[key] {
			if failed = reasons[key]; failed == nil {
				failed = fmt.Errorf("%s could not be set; it is tried again", s.by)
			}
		}
		if s.End(now, s.attempt, failed, limitRest) && failed == nil {
			s.wrong = false
		}
	}
}

// explain collects why Limits could not be applied.
func explain(err error, reasons map[model.LimitKey]error) {
	var one *model.LimitError
	if many, ok := err.(interface{ Unwrap() []error }); ok { // its parts are looked at one by one
		for _, e := range many.Unwrap() {
			explain(e, reasons)
		}
	} else if errors.As(err, &one) {
		reasons[one.Key] = one.Err
	}
}

// Adopt takes Limits that an earlier run left standing, as their enforcer reads them: those that nothing wants are lifted.
func (c *Core) Adopt(now time.Time, stand []model.Limit) {
	for i := range stand {
		if s := c.state(stand[i].LimitKey); s != nil && !s.stands() {
			s.Known, s.Has, s.At = true, stand[i], now.Add(-verifyEvery)
		}
	}
}

// Lift lists the Limits that end an orderly run: what is allowed is lifted and contracts stay, or all is lifted.
func (c *Core) Lift(all bool) []Order {
	if c.opts.Mode == model.ModeObserve {
		return nil
	}
	var out []Order
	add := func(s *limitState, there bool) { // what may be under way counts as well
		if !s.stands() && !s.Pending(c.at) && !there || s.by == "" {
			return
		}
		l := model.Limit{LimitKey: s.key}
		if !all {
			l.Contract = s.Want.Contract
		}
		out = append(out, Order{Limit: l})
	}
	for _, l := range c.links {
		add(&l.root, false)
	}
	for _, n := range c.nics {
		for i := range n.limits { // a plug sets its VF's rate itself, which the next Snapshot shows
			add(&n.limits[i], slots[i].path == model.PathVF && n.limits[i].by == maxTxRate && (n.ours || n.plugging))
		}
	}
	return out
}

// LiftLeft is Lift for what an earlier run left, in place of that: of what Follow and Adopt have shown to stand, and
// nothing else. No Tick is to come before it.
func (c *Core) LiftLeft(now time.Time, all bool) []Order {
	c.decide(now, nil)
	return c.Lift(all)
}
