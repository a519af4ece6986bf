package loop

import (
	"time"

	"sluice/internal/model"
	"sluice/internal/placement"
	"sluice/internal/plan"
)

// busy shows plan which VMs have a move under way or one that the Snapshot may not show yet.
type busy struct{ c *Core }

// VM implements plan.Busy.
func (b busy) VM(id model.VMID) bool {
	if b.c.active[id] != nil {
		return true
	}
	for i := range b.c.done {
		if b.c.done[i].vm == id {
			return true
		}
	}
	return false
}

// forget drops what the new Snapshot shows by itself, and what time has healed.
func (c *Core) forget(snap *model.Snapshot, now time.Time) {
	kept := c.done[:0]
	for _, d := range c.done {
		if !snap.Read.After(d.at) {
			kept = append(kept, d)
		} else if d.used != model.NoVF {
			c.checker.Used(d.used) // unless this Snapshot, the first since, shows it clean
		}
	}
	c.done = kept
	if c.totals.Ticks%sweepEvery == 0 {
		sweep(snap, c.fails)
		sweep(snap, c.idle)
		sweep(snap, c.costs)
	}
	for id, until := range c.badVFs {
		if !now.Before(until) {
			delete(c.badVFs, id)
		}
	}
}

// sweepEvery is how many ticks pass between two looks for memories of VMs that left.
const sweepEvery = 64

func sweep[T any](snap *model.Snapshot, m map[model.VMID]T) {
	for id := range m {
		if snap.FindVM(id) == nil {
			delete(m, id)
		}
	}
}

// hints tell placement what the Snapshot does not show.
func (c *Core) hints(now time.Time) *placement.Hints {
	h := &placement.Hints{BadVFs: c.badVFs, Cost: c.costOf}
	if len(c.active)+len(c.fails)+len(c.done) > 0 {
		h.VMs = make(map[model.VMID]placement.Hint, len(c.active)+len(c.fails)+len(c.done))
	}
	for id, f := range c.fails {
		if vm := c.snap.FindVM(id); now.Before(f.Until) {
			has := holds(vm)
			if f.Give {
				has = model.NoVF
			}
			h.VMs[id] = placement.Hint{VF: has, Code: model.CodeBackoff, Until: f.Until, Detail: f.Text}
		}
	}
	for _, d := range c.done {
		if d.known {
			h.VMs[d.vm] = placement.Hint{VF: d.vf}
		}
	}
	for id, m := range c.active {
		hint := placement.Hint{Code: model.CodeMoving, Detail: m.Move.Steps[min(m.Step, len(m.Move.Steps)-1)].String()}
		if (m.Move.Kind == model.MovePlug) != m.Undoing {
			hint.VF = m.Move.VF
		}
		if m.Move.Kind == model.MoveRepair {
			hint.VF = holds(c.snap.FindVM(id))
		}
		h.VMs[id] = hint
	}
	return h
}

// watchIdle takes the VF of a guest that has not used it for longer than a plug may
// take (its driver is gone): it would do others more good.
func (c *Core) watchIdle(now time.Time) {
	for i := range c.snap.VMs {
		vm := &c.snap.VMs[i]
		vf := c.snap.FindVF(holds(vm))
		if vf == nil || vf.InGuest != model.No || vm.State != model.VMRunning || c.active[vm.ID] != nil {
			delete(c.idle, vm.ID)
			continue
		}
		since, seen := c.idle[vm.ID]
		if !seen {
			c.idle[vm.ID] = now
		} else if f := c.fails[vm.ID]; now.Sub(since) > 2*c.opts.Timeouts.Guest && (f == nil || !f.Give || !now.Before(f.Until)) {
			c.rest(now, vm.ID, "its guest does not use the VF it has: no driver has it open").Give = true
		}
	}
}

// holds is the VF of ours that a VM has, which may not be there.
func holds(vm *model.VM) model.VFID {
	if vm != nil {
		if n := vm.Ours(); n != nil {
			return n.VF
		}
	}
	return model.NoVF
}

// takeUpLeft queues what an earlier run left unfinished, before anything is decided.
func (c *Core) takeUpLeft(now time.Time) {
	if c.opts.Mode != model.ModeEnforce {
		return
	}
	for _, m := range c.resume {
		again, ok := plan.Resume(c.snap, m, c.opts.Timeouts)
		if !ok {
			_ = c.journal.End(m)
			continue
		}
		c.take(now, again).retryAt = now
	}
	c.resume = nil
}

// mendEvery is how long the loop waits before it tries again to mend the same finding.
const mendEvery = 30 * time.Second

// mend queues repairs: of what cuts a VM off always, of the rest when a person asked.
func (c *Core) mend(now time.Time) {
	if now.Sub(c.asked) > mendEvery {
		c.asked = time.Time{} // what could not be tried by now has to be asked for again
	}
	there := map[string]bool{}
	for _, f := range c.findings {
		if len(f.Repair) == 0 {
			continue
		}
		s := f.Repair[0]
		m := model.Move{
			Kind: model.MoveRepair, VM: s.Subject.VM, VMName: s.Subject.VMName, VF: s.VFID(), Steps: f.Repair,
			Reason: model.Reason{VM: s.Subject.VM, Code: model.CodeRepair, Detail: f.Subject + " " + f.Text},
		}
		name := mendName(m)
		there[name] = true
		last, tried := c.mended[name]
		due := plan.Urgent(f.Code) && (!tried || now.Sub(last) >= mendEvery)
		if asked := !c.asked.IsZero() && (!tried || last.Before(c.asked)); !due && !asked {
			continue
		}
		if c.free(m) {
			c.waiting = append(c.waiting, m)
		}
	}
	for name := range c.mended {
		if !there[name] {
			delete(c.mended, name) // should it come back, it is mended at once
		}
	}
}

// mendName tells tries to mend one finding from those to mend another.
func mendName(m model.Move) string {
	return m.Reason.Detail + " " + m.Steps[0].String()
}

// free says whether a repair could start: none of its VM or VF is under way or waits. If
// not, it has its turn at another tick.
func (c *Core) free(m model.Move) bool {
	k := key(m)
	if c.active[k] != nil {
		return false
	}
	for i := range c.waiting {
		if c.waiting[i].Kind == model.MoveRepair && key(c.waiting[i]) == k {
			return false
		}
	}
	return true
}

// costOf is what moves of the VM have cost, or of all VMs while it has had none.
func (c *Core) costOf(vm model.VMID) placement.Cost {
	if own := c.costs[vm]; own != nil {
		return own.mean()
	}
	return c.sum.mean()
}

// costs sums what moves took.
type costs struct {
	Plugs, Unplugs, Failed int
	Plug, Unplug           time.Duration
}

func (k *costs) mean() placement.Cost {
	var out placement.Cost
	if k.Plugs > 0 {
		out.Plug = k.Plug / time.Duration(k.Plugs)
	}
	if k.Unplugs > 0 {
		out.Unplug = k.Unplug / time.Duration(k.Unplugs)
	}
	if n := k.Plugs + k.Unplugs + k.Failed; n > 0 {
		out.Fail = float64(k.Failed) / float64(n)
	}
	return out
}

// spent adds to what moves of the VM, and of all, have cost.
func (c *Core) spent(vm model.VMID, add func(*costs)) {
	own := c.costs[vm]
	if own == nil {
		own = &costs{}
		c.costs[vm] = own
	}
	add(own)
	add(&c.sum)
}

func (c *Core) account(m model.MoveStatus) {
	took := m.Ended.Sub(m.Started)
	switch m.Move.Kind {
	case model.MovePlug:
		c.totals.Plugs++
		c.totals.PlugTime += took
		c.spent(m.Move.VM, func(k *costs) { k.Plugs++; k.Plug += took })
	case model.MoveUnplug:
		c.totals.Unplugs++
		c.totals.UnplugTime += took
		c.spent(m.Move.VM, func(k *costs) { k.Unplugs++; k.Unplug += took })
	case model.MoveRepair:
		c.totals.Repairs++
	}
}

// keepRecent is how many ended moves a View shows.
const keepRecent = 100

func (c *Core) remember(m model.MoveStatus) {
	c.ended = append(c.ended, m)
	c.recent = append([]model.MoveStatus{m}, c.recent[:min(len(c.recent), keepRecent-1)]...)
}

// Ended returns the moves that ended since it was last called.
func (c *Core) Ended() []model.MoveStatus {
	out := c.ended
	c.ended = nil
	return out
}

// Wake is the next time at which a retry is due; zero when none is.
func (c *Core) Wake() time.Time {
	var next time.Time
	for _, m := range c.active {
		if m.stepID == 0 && (next.IsZero() || m.retryAt.Before(next)) {
			next = m.retryAt
		}
	}
	return next
}

// Timer starts what is due at now.
func (c *Core) Timer(now time.Time) []model.Step { return c.advance(now) }

// Idle says that nothing is under way and nothing waits.
func (c *Core) Idle() bool { return len(c.active) == 0 && len(c.waiting) == 0 }

// View is a picture of everything for API, metrics and people. It shares the Snapshot
// and Target, which are not changed afterwards.
func (c *Core) View() *model.View {
	v := &model.View{
		Snapshot: c.snap, Target: c.target, Rules: c.rules, Rounds: placement.Rounds(c.rules.Policy), Mode: c.opts.Mode,
		Pending: append([]model.Move(nil), c.waiting...), Findings: c.findings,
		Recent: append([]model.MoveStatus(nil), c.recent...), Totals: c.totals, Started: c.started,
		Tick: c.tickTime,
	}
	for _, id := range sortedKeys(c.active) {
		v.Active = append(v.Active, c.active[id].MoveStatus)
	}
	return v
}

var _ plan.Busy = busy{}
