package loop

import (
	"errors"
	"time"

	"sluice/internal/model"
)

// failure counts a NIC's failed moves.
type failure struct {
	Count int
	Until time.Time
	Text  string
	Give  bool // it gives up the VF it has: its guest does not use it
}

// fail counts a failed move and makes its NIC rest before the next.
func (c *Core) fail(now time.Time, m model.Move, err error) {
	c.totals.Failed++
	if (m.Kind != model.MovePlug && m.Kind != model.MoveUnplug) || errors.Is(err, model.ErrGone) {
		return
	}
	c.spent(m.VM, func(k *costs) { k.Failed++ })
	c.rest(now, nicOf(m), string(m.Kind)+" of "+m.VF.String()+" failed: "+err.Error())
}

// rest makes a NIC wait, twice as long each time.
func (c *Core) rest(now time.Time, nic model.NICID, why string) *failure {
	f := c.fails[nic]
	if f == nil {
		f = &failure{}
		c.fails[nic] = f
	}
	wait := c.opts.BackoffMax
	if f.Count < 16 {
		wait = min(wait, c.opts.Backoff<<f.Count)
	}
	f.Count++
	f.Until = now.Add(wait)
	f.Text, f.Give = why, false
	return f
}

// journalState is what the journal's last refusal means.
type journalState struct {
	err   error
	until time.Time // when it is tried again
}

// journalRest is how long Moves that need the journal wait after it refused one.
const journalRest = 10 * time.Second

func (s *journalState) note(now time.Time, err error) {
	*s = journalState{err: err}
	if err != nil {
		s.until = now.Add(journalRest)
	}
}

// JournalFailed tells that the journal could not even be opened.
func (c *Core) JournalFailed(err error) { c.journal.err = err }

// Trouble is why no Move but repairs can begin; nil when they can.
func (c *Core) Trouble() error { return c.journal.err }
