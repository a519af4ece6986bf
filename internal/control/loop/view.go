package loop

import (
	"slices"
	"time"

	"sluice/internal/control/bandwidth"
	"sluice/internal/control/placement"
	"sluice/internal/model"
)

// keepRecent is how many ended moves a View shows.
const keepRecent = 100

// record is the history that is shown to users.
type record struct {
	started  time.Time // time of the first Tick
	reloaded time.Time // time of the first Tick with other rules of the config
	tick     time.Duration
	totals   model.Totals
	recent   []model.MoveStatus
	ended    []model.MoveStatus // since the last call of Ended
	failed   []time.Time        // when the moves of the last hour failed, oldest first
}

// fail counts a move that failed.
func (r *record) fail(now time.Time) {
	r.totals.Failed++
	r.failed = append(r.failed[r.old(now):], now)
}

// failedHour counts the moves that failed in the hour before now.
func (r *record) failedHour(now time.Time) int { return len(r.failed) - r.old(now) }

// old counts the failures that were an hour ago or more.
func (r *record) old(now time.Time) int {
	i := slices.IndexFunc(r.failed, func(at time.Time) bool { return now.Sub(at) < time.Hour })
	if i < 0 {
		return len(r.failed)
	}
	return i
}

func (r *record) add(m model.MoveStatus) {
	r.ended = append(r.ended, m)
	r.recent = append([]model.MoveStatus{m}, r.recent[:min(len(r.recent), keepRecent-1)]...)
}

// Ended returns the moves that ended since it was last called.
func (c *Core) Ended() []model.MoveStatus {
	out := c.record.ended
	c.record.ended = nil
	return out
}

// Wake returns the next time at which a Step is due; zero if none is.
func (c *Core) Wake() time.Time { return c.exec.Wake() }

// Timer starts what is due at now.
func (c *Core) Timer(now time.Time) []model.Step { return c.advance(now) }

// pending lists what has not begun, repairs first.
func (c *Core) pending() []model.Move {
	var out []model.Move
	for _, queue := range [][]repair{c.repairs.cutOff, c.repairs.others} {
		for i := range queue {
			out = append(out, queue[i].move)
		}
	}
	return append(out, c.waiting...)
}

// View returns the whole state for API, metrics and users. It shares the Snapshot and Target, which are not changed afterwards.
func (c *Core) View() *model.View {
	v := &model.View{
		Snapshot: c.snap, Target: c.target, Rules: c.rules, Rounds: placement.Rounds(c.rules.Policy), Mode: c.opts.Mode,
		Pending: c.pending(), Findings: c.findings,
		Recent: append([]model.MoveStatus(nil), c.record.recent...), Totals: c.record.totals, Started: c.record.started,
		Reloaded: c.record.reloaded, Tick: c.record.tick,
	}
	v.Totals.Retries, v.Active = c.exec.Retries(), c.active()
	if c.snap != nil {
		v.Totals.FailedHour = c.record.failedHour(c.snap.Time)
	}
	return v
}

// active lists the moves under way.
func (c *Core) active() []model.MoveStatus {
	var out []model.MoveStatus
	for _, r := range c.exec.Runs() {
		m := r.MoveStatus
		m.Times = slices.Clone(m.Times) // the executor keeps writing to its own
		out = append(out, m)
	}
	return out
}

// Missed counts a sample that was due while the previous one was still being taken.
func (c *Core) Missed() { c.record.totals.LateSamples++ }

// Took records how long a Tick took, for Views.
func (c *Core) Took(d time.Duration) { c.record.tick = d }

// Stop makes the Core begin no more Moves. Those under way go on to their end.
func (c *Core) Stop() { c.opts.Mode = model.ModeObserve }

// Settled reports whether no Move is under way.
func (c *Core) Settled() bool { return c.exec.Len() == 0 }

// Mode returns how far the Core may go.
func (c *Core) Mode() model.Mode { return c.opts.Mode }

// World returns what the bandwidth controller needs to know. Its Snapshot is nil before the first Tick.
func (c *Core) World() bandwidth.World {
	w := bandwidth.World{Snapshot: c.snap, Rules: c.rules, Active: c.active()}
	if c.target != nil {
		w.Tiers = c.target.Limits
	}
	return w
}
