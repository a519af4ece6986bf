package loop

import "sluice/internal/model"

// Stop makes the Core begin no more Moves. Those under way go on to their end.
func (c *Core) Stop() { c.opts.Mode = model.ModeObserve }

// Settled reports whether no Move is under way.
func (c *Core) Settled() bool { return c.exec.Len() == 0 }
