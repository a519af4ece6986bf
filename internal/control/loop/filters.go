package loop

import (
	"slices"
	"time"

	"sluice/internal/model"
)

// Filters remembers across restarts which PF filters Sluice added: once their VM is gone, nothing else distinguishes them from
// those of others.
type Filters interface {
	All() []model.Filter
	Added(model.Filter)
	Gone(model.Filter)
}

// ownFilters holds the filters that Sluice added.
type ownFilters struct {
	book  Filters                    // nil: they are not remembered across restarts
	added map[model.Filter]time.Time // when each was added; zero time for those of earlier runs
}

// Remember takes over the filters that earlier runs added, and records new ones in book.
func (c *Core) Remember(book Filters) {
	c.filters.book = book
	for _, f := range book.All() {
		c.filters.added[f] = time.Time{}
		c.checker.Added(f)
	}
}

// noteFilters records the filters that Steps are about to add, before they exist, so that a crash loses none. A filter that the
// Snapshot shows and that Sluice did not add is somebody else's.
func (c *Core) noteFilters(now time.Time, steps []model.Step) {
	for i := range steps {
		if k := steps[i].Kind; k != model.StepAddSelf && k != model.StepFollowGuest { // these two may add a filter
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

// forgetFilters drops the filters that no longer exist.
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
		if there[f] || !snap.Read.After(at.Add(c.opts.Timeouts.Kernel)) { // it may be about to appear
			continue
		}
		delete(c.filters.added, f)
		c.checker.Removed(f)
		if c.filters.book != nil {
			c.filters.book.Gone(f)
		}
	}
}
