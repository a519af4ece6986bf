package loop

import (
	"errors"
	"time"

	"sluice/internal/base/reconcile"
	"sluice/internal/model"
)

// failure describes the consecutive failed moves of a NIC, which backs off before its next move. It is not a reconcile.Failure,
// because a Memory holds it as it is.
type failure struct {
	Count int
	Until time.Time // end of the back-off
	Text  string    // why the last move failed
	Give  bool      // the NIC gives up the VF that it has, because its guest does not use it
}

// fail counts a failed move and makes its NIC back off before the next.
func (c *Core) fail(now time.Time, m model.Move, err error) {
	c.record.fail(now)
	if (m.Kind != model.MovePlug && m.Kind != model.MoveUnplug) || errors.Is(err, model.ErrGone) {
		return
	}
	c.costs.spent(m.VM, func(k *costs) { k.Failed++ })
	c.backOff(now, nicOf(m), string(m.Kind)+" of "+m.VF.String()+" failed: "+err.Error(), false)
}

// backOff makes a NIC back off, twice as long each time; giveUp means that it gives up its VF meanwhile.
func (c *Core) backOff(now time.Time, nic model.NICID, why string, giveUp bool) {
	count := c.fails[nic].Count + 1
	wait := reconcile.Backoff{First: c.opts.Backoff, Most: c.opts.BackoffMax}.After(count)
	c.fails[nic] = failure{Count: count, Until: now.Add(wait), Text: why, Give: giveUp}
}

// journalRest is how long Moves that need the journal wait after it refused one.
const journalRest = 10 * time.Second

// noteJournal records the journal's result.
func (c *Core) noteJournal(now time.Time, err error) {
	if c.journal = (reconcile.Failure{}); err != nil {
		c.journal.Fail(now, err, reconcile.Backoff{First: journalRest})
	}
}

// JournalFailed records that the journal could not even be opened.
func (c *Core) JournalFailed(err error) { c.journal.Err = err }

// Trouble returns why no Move except repairs can begin; nil if they can.
func (c *Core) Trouble() error { return c.journal.Err }
