package loop

import (
	"errors"
	"time"

	"sluice/internal/base/reconcile"
	"sluice/internal/model"
)

// fails holds the NICs whose moves failed: each backs off before its next move. Want is true for a NIC that is to give up the VF
// it has because its guest does not use it.
type fails = reconcile.Table[model.NICID, bool]

// fail counts a failed move and makes its NIC back off before the next.
func (c *Core) fail(now time.Time, m model.Move, err error) {
	c.record.totals.Failed++
	if (m.Kind != model.MovePlug && m.Kind != model.MoveUnplug) || errors.Is(err, model.ErrGone) {
		return
	}
	c.costs.spent(m.VM, func(k *costs) { k.Failed++ })
	c.rest(now, nicOf(m), string(m.Kind)+" of "+m.VF.String()+" failed: "+err.Error(), false)
}

// rest makes a NIC back off, twice as long each time; giveUp means that it gives up its VF meanwhile.
func (c *Core) rest(now time.Time, nic model.NICID, why string, giveUp bool) {
	f := c.fails.Object(nic)
	f.Fail(now, errors.New(why), reconcile.Backoff{First: c.opts.Backoff, Most: c.opts.BackoffMax})
	f.Want = giveUp
}

// journalRest is how long Moves that need the journal wait after it refused one.
const journalRest = 10 * time.Second

// journalSaid records the journal's result.
func (c *Core) journalSaid(now time.Time, err error) {
	if c.journal.Failed = (reconcile.Failure{}); err != nil {
		c.journal.Fail(now, err, reconcile.Backoff{First: journalRest})
	}
}

// JournalFailed records that the journal could not even be opened.
func (c *Core) JournalFailed(err error) { c.journal.Failed.Err = err }

// Trouble returns why no Move except repairs can begin; nil if they can.
func (c *Core) Trouble() error { return c.journal.Failed.Err }
