package bandwidth

import (
	"errors"
	"time"

	"sluice/internal/model"
)

// Applied takes what became of a batch, or of a part of it: what is not among applied rests,
// and its NIC counts as one that nothing limits.
func (c *Core) Applied(now time.Time, batch, applied []model.Limit, err error) {
	for i := range batch {
		if s := c.state(batch[i].LimitKey); s != nil {
			s.pending, s.failed, s.why = false, now, ""
		}
	}
	for i := range applied {
		s := c.state(applied[i].LimitKey)
		if s == nil {
			continue
		}
		s.failed, s.at, s.has, s.wrong = time.Time{}, now, !applied[i].Lifts(), false
		s.now = applied[i]
		for k := range batch { // as it was asked for: an enforcer rounds, and what it cannot hold it leaves out
			if batch[k].LimitKey == applied[i].LimitKey {
				s.now = batch[k]
			}
		}
	}
	c.explain(err)
}

// explain notes why Limits could not be applied.
func (c *Core) explain(err error) {
	var one *model.LimitError
	if many, ok := err.(interface{ Unwrap() []error }); ok { // its parts are looked at one by one
		for _, e := range many.Unwrap() {
			c.explain(e)
		}
	} else if errors.As(err, &one) {
		if s := c.state(one.Key); s != nil {
			s.why = one.Err.Error()
		}
	}
}

// Adopt takes Limits that an earlier run left standing, as their enforcer reads them: those that nothing wants are lifted.
func (c *Core) Adopt(now time.Time, stand []model.Limit) {
	for i := range stand {
		if s := c.state(stand[i].LimitKey); s != nil && !s.has {
			s.has, s.now, s.at = true, stand[i], now.Add(-verifyEvery)
		}
	}
}

// Lift lists the Limits that end an orderly run: what is allowed is lifted and contracts stay, or all is lifted.
func (c *Core) Lift(all bool) []model.Limit {
	if c.opts.Mode == model.ModeObserve {
		return nil
	}
	var out []model.Limit
	add := func(s *limitState, there bool) { // what may be under way counts as well
		if !s.has && !s.pending && !there || s.by == "" {
			return
		}
		l := model.Limit{LimitKey: s.key}
		if !all {
			l.Contract = s.want.Contract
		}
		out = append(out, l)
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
func (c *Core) LiftLeft(now time.Time, all bool) []model.Limit {
	c.decide(now, nil)
	return c.Lift(all)
}
