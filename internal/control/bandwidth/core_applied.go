package bandwidth

import (
	"errors"
	"fmt"
	"time"

	"sluice/internal/model"
)

// Order is a Limit that its enforcer is to apply. Its result counts only until the same Limit is ordered again.
type Order struct {
	model.Limit
	number uint64 // counts the Orders of this Core; 0: its result does not count
}

// LimitsOf returns the Limits of Orders.
func LimitsOf(batch []Order) []model.Limit {
	out := make([]model.Limit, len(batch))
	for i := range batch {
		out[i] = batch[i].Limit
	}
	return out
}

// Applied records the result of a batch, or of a part of it. Limits that are not among applied are retried later, and until then their
// NICs count as unlimited. The result of an Order is ignored if the same Limit has been ordered again since.
func (c *Core) Applied(now time.Time, batch []Order, applied []model.Limit, err error) {
	reasons := map[model.LimitKey]error{}
	if err != nil {
		explain(err, reasons)
	}
	worked := make(map[model.LimitKey]*model.Limit, len(applied))
	for i := range applied {
		worked[applied[i].LimitKey] = &applied[i]
	}
	for i := range batch {
		key := batch[i].LimitKey
		s := c.state(key)
		if s == nil || batch[i].number == 0 || batch[i].number != s.order {
			continue
		}
		var failed error
		if worked[key] == nil {
			if failed = reasons[key]; failed == nil {
				failed = fmt.Errorf("%s could not be set; it is tried again", s.by)
			}
		}
		if s.End(now, s.attempt, failed, limitRest) && failed == nil {
			s.wrong, s.worked, s.least = false, true, worked[key].Guarantee
		}
	}
}

// explain collects why Limits could not be applied.
func explain(err error, reasons map[model.LimitKey]error) {
	var one *model.LimitError
	if many, ok := err.(interface{ Unwrap() []error }); ok { // errors.As would find only the first
		for _, e := range many.Unwrap() {
			explain(e, reasons)
		}
	} else if errors.As(err, &one) {
		reasons[one.Key] = one.Err
	}
}

// Adopt takes over Limits that an earlier run left in force, as their enforcer reads them; those that are not wanted are lifted.
func (c *Core) Adopt(now time.Time, found []model.Limit) {
	for i := range found {
		if s := c.state(found[i].LimitKey); s != nil && !s.inForce() {
			s.Known, s.Has, s.At = true, found[i], now.Add(-verifyEvery)
		}
	}
}

// Lift lists the Limits to apply at an orderly stop: it lifts the allowances and keeps the contracts, or lifts all.
func (c *Core) Lift(all bool) []Order {
	if c.opts.Mode == model.ModeObserve {
		return nil
	}
	var out []Order
	add := func(s *limitState, there bool) { // an Order may still be under way
		if !s.inForce() && !s.Pending(c.at) && !there || s.by == "" {
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

// LiftLeft is Lift on behalf of an earlier run, for the Limits that Follow and Adopt have found in force and no others. There must be no
// Tick before it.
func (c *Core) LiftLeft(now time.Time, all bool) []Order {
	c.decide(now, nil)
	return c.Lift(all)
}
