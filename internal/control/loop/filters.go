package loop

import (
	"slices"
	"time"

	"sluice/internal/model"
)

// Filters remembers across restarts which PF filters Sluice added: nothing else tells
// them from those of others once their VM has gone.
type Filters interface {
	All() []model.Filter
	Added(model.Filter)
	Gone(model.Filter)
}

// ownFilters is what a Core knows of the filters that it added.
type ownFilters struct {
	book  Filters                    // nil: they are forgotten with the process
	added map[model.Filter]time.Time // and when
}

// Remember takes up the filters that earlier runs added, and keeps book of new ones.
func (c *Core) Remember(book Filters) {
	c.filters.book = book
	for _, f := range book.All() {
		c.filters.added[f] = time.Time{}
		c.checker.Added(f)
	}
}

// noteFilters books the filters that Steps are about to add: before they are there, so
// that none is lost in a crash. One that the Snapshot shows without Sluice having added
// it is somebody else's.
func (c *Core) noteFilters(now time.Time, steps []model.Step) {
	for i := range steps {
		if k := steps[i].Kind; k != model.StepAddSelf && k != model.StepFollowGuest { // which may
			continue
		}
		f := model.Filter{PF: steps[i].Path.PF, MAC: steps[i].Path.MAC}
		if _, own := c.filters.added[f]; !own {
			if pf := c.snap.FindPF(f.PF); pf == nil || slices.Contains(pf.SelfFDB, f.MAC) {
				continue
			}
			c.checker.Added(f)
			if c.filters.book != nil {
				c.filters.book.Added(f)
			}
		}
		c.filters.added[f] = now
	}
}

// forgetFilters strikes out the filters that are no longer there.
func (c *Core) forgetFilters(snap *model.Snapshot) {
	if len(c.filters.added) == 0 {
		return
	}
	there := map[model.Filter]bool{}
	for i := range snap.PFs {
		for _, mac := range snap.PFs[i].SelfFDB {
			there[model.Filter{PF: snap.PFs[i].Name, MAC: mac}] = true
		}
	}
	for f, at := range c.filters.added {
		if there[f] || !snap.Read.After(at.Add(c.opts.Timeouts.Kernel)) { // it may be on its way
			continue
		}
		delete(c.filters.added, f)
		c.checker.Removed(f)
		if c.filters.book != nil {
			c.filters.book.Gone(f)
		}
	}
}
