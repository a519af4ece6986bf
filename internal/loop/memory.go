package loop

import (
	"time"

	"sluice/internal/executor"
	"sluice/internal/model"
	"sluice/internal/placement"
	"sluice/internal/plan"
)

// busy shows plan which VMs have a move under way or one that the Snapshot may not show yet.
type busy struct{ c *Core }

// VM implements plan.Busy.
func (b busy) VM(id model.VMID) bool {
	key := model.Subject{VM: id}.Key()
	_, done := b.c.done[key]
	return done || b.c.exec.Run(key) != nil
}

// forget drops what the new Snapshot shows by itself, and what time has healed.
func (c *Core) forget(snap *model.Snapshot, now time.Time) {
	for key, d := range c.done {
		if snap.Read.After(d.at) {
			delete(c.done, key)
			if d.used != model.NoVF {
				c.checker.Used(d.used) // unless this Snapshot, the first since, shows it clean
			}
		}
	}
	for vf, at := range c.freed {
		if snap.Read.After(at) {
			delete(c.freed, vf)
		}
	}
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
	if n := c.exec.Len() + len(c.fails) + len(c.done); n > 0 {
		h.VMs = make(map[model.VMID]placement.Hint, n)
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
	for _, r := range c.exec.Runs() {
		if r.Move.VM == "" {
			continue
		}
		hint := placement.Hint{Code: model.CodeMoving, Detail: r.Now().String()}
		if (r.Move.Kind == model.MovePlug) != r.Undoing {
			hint.VF = r.Move.VF
		}
		if r.Move.Kind == model.MoveRepair {
			hint.VF = holds(c.snap.FindVM(r.Move.VM))
		}
		h.VMs[r.Move.VM] = hint
	}
	return h
}

// watchIdle takes the VF of a guest that has not used it for longer than a plug may
// take (its driver is gone): it would do others more good.
func (c *Core) watchIdle(now time.Time) {
	for i := range c.snap.VMs {
		vm := &c.snap.VMs[i]
		vf := c.snap.FindVF(holds(vm))
		if vf == nil || vf.InGuest != model.No || vm.State != model.VMRunning || c.exec.Run(model.Subject{VM: vm.ID}.Key()) != nil {
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
		if !ok || c.exec.Run(executor.Key(again)) != nil {
			c.exec.Forget(m)
			continue
		}
		c.exec.Resume(now, plan.WithUndo(again, c.opts.Timeouts))
		if again.Kind == model.MoveRepair {
			c.repairing++
		}
	}
	c.resume = nil
}

// doneMove is what an ended Move left true.
type doneMove struct {
	vm    model.VMID
	known bool       // it is known which VF the VM has now
	vf    model.VFID // NoVF after an unplug
	used  model.VFID // the VF that it set up or cleared
	at    time.Time
}

var _ plan.Busy = busy{}
