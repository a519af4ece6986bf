package loop

import (
	"maps"
	"slices"
	"time"

	"sluice/internal/control/executor"
	"sluice/internal/control/placement"
	"sluice/internal/control/plan"
	"sluice/internal/model"
)

// busy tells plan which VMs have a move under way, or one that the Snapshot may not show yet.
type busy struct{ c *Core }

// VM implements plan.Busy.
func (b busy) VM(id model.VMID) bool { return b.c.unseen.vm(id) || b.c.underWay(id) }

// NIC implements plan.Busy.
func (b busy) NIC(id model.NICID) bool { return b.c.unseen.nic(id) || b.c.nicUnderWay(id) }

// underWay reports whether a Move of the VM is under way.
func (c *Core) underWay(vm model.VMID) bool {
	return slices.ContainsFunc(c.exec.Runs(), func(r *executor.Run) bool { return r.Move.VM == vm })
}

// nicUnderWay reports whether a Move of the NIC is under way.
func (c *Core) nicUnderWay(id model.NICID) bool {
	return slices.ContainsFunc(c.exec.Runs(), func(r *executor.Run) bool { return nicOf(r.Move) == id })
}

// forget drops state that the new Snapshot shows by itself, and state that has expired.
func (c *Core) forget(snap *model.Snapshot, now time.Time) {
	c.unseen.drop(snap.Read, func(d endedMove) {
		if d.used != model.NoVF {
			c.checker.Used(d.used) // unless this Snapshot, the first since, shows it clean
			c.checker.Routed(d.network, d.mac, snap.Time)
		}
	})
	if len(snap.Unread) == 0 && c.record.totals.Ticks%sweepEvery == 0 {
		gone := func(vm model.VMID) bool { return snap.FindVM(vm) == nil }
		maps.DeleteFunc(c.fails, func(id model.NICID, _ failure) bool { return gone(id.VM) })
		maps.DeleteFunc(c.idle, func(id model.NICID, _ time.Time) bool { return gone(id.VM) })
		c.carried.forget(gone)
		maps.DeleteFunc(c.costs.byVM, func(id model.VMID, _ costs) bool { return gone(id) })
	}
	if c.record.totals.Ticks%sweepEvery == 1 {
		c.forgetFilters(snap)
	}
	maps.DeleteFunc(c.badVFs, func(_ model.VFID, until time.Time) bool { return !now.Before(until) })
}

// sweepEvery is the number of ticks between two searches for state of VMs that are gone.
const sweepEvery = 64

// nicOf returns the NIC that a Move is about.
func nicOf(m model.Move) model.NICID { return model.NICID{VM: m.VM, NIC: m.NIC} }

// hints returns what placement must know that the Snapshot does not show.
func (c *Core) hints(now time.Time) *placement.Hints {
	h := &placement.Hints{BadVFs: c.badVFs, Cost: c.costs.of}
	if n := c.exec.Len() + len(c.fails) + len(c.unseen.moves); n > 0 {
		h.NICs = make(map[model.NICID]placement.Hint, n)
	}
	for id, f := range c.fails {
		if now.Before(f.Until) {
			has := holds(c.snap, id)
			if f.Give {
				has = model.NoVF
			}
			h.NICs[id] = placement.Hint{VF: has, Code: model.CodeBackoff, Until: f.Until, Detail: f.Text}
		}
	}
	for vm, moves := range c.unseen.moves {
		for _, d := range moves {
			if d.known {
				h.NICs[model.NICID{VM: vm, NIC: d.nic}] = placement.Hint{VF: d.vf}
			}
		}
	}
	for _, r := range c.exec.Runs() {
		c.hintMoving(h, r)
	}
	c.hintContained(h)
	return h
}

// hintMoving makes placement leave all NICs of a VM as they are while one of them is moved.
func (c *Core) hintMoving(h *placement.Hints, r *executor.Run) {
	vm := c.snap.FindVM(r.Move.VM)
	if vm == nil {
		return
	}
	for i := range vm.NICs {
		id := model.NICID{VM: vm.ID, NIC: vm.NICs[i].Alias}
		has := vm.NICs[i].Ours()
		switch known, ok := h.NICs[id]; {
		case ok && known.Code == "":
			has = known.VF // the Move ended after the Snapshot was taken
		case ok && known.Code == model.CodeMoving && r.Move.NIC != id.NIC:
			continue // it has a Move of its own, or its hint is set already
		}
		if r.Move.Kind != model.MoveRepair && r.Move.NIC == id.NIC {
			has = model.NoVF
			if (r.Move.Kind == model.MovePlug) != r.Undoing {
				has = r.Move.VF
			}
		}
		h.NICs[id] = placement.Hint{VF: has, Code: model.CodeMoving, Detail: r.Now().String()}
	}
}

// watchIdle takes away the VF of a guest that has not used it for longer than a plug may take (its driver is gone), so that
// others can have it.
func (c *Core) watchIdle(now time.Time) {
	for vm, nic := range c.snap.NICs() {
		c.watchNIC(now, vm, nic)
	}
}

func (c *Core) watchNIC(now time.Time, vm *model.VM, nic *model.NIC) {
	id := model.NICID{VM: vm.ID, NIC: nic.Alias}
	vf := c.snap.FindVF(nic.Ours())
	if vf == nil || vf.InGuest != model.No || vm.State != model.VMRunning || c.nicUnderWay(id) {
		if len(c.idle) > 0 {
			delete(c.idle, id)
		}
		return
	}
	since, seen := c.idle[id]
	if !seen {
		c.idle[id] = now
	} else if f := c.fails[id]; now.Sub(since) > 2*c.opts.Timeouts.Guest && (!f.Give || !now.Before(f.Until)) {
		c.backOff(now, id, "its guest does not use the VF it has: no driver has it open", true)
	}
}

// holds returns the VF of ours that a NIC has, or NoVF. The NIC may not exist.
func holds(snap *model.Snapshot, id model.NICID) model.VFID {
	if vm := snap.FindVM(id.VM); vm != nil {
		return vm.FindNIC(id.NIC).Ours()
	}
	return model.NoVF
}

// resumeLeft resumes what an earlier run left unfinished, before anything is decided. A Move of a VM that could not be read waits.
func (c *Core) resumeLeft(now time.Time) {
	if c.opts.Mode != model.ModeEnforce {
		return
	}
	waits := c.resume[:0]
	for _, m := range c.resume {
		if slices.Contains(c.snap.Unread, m.VM) {
			waits = append(waits, m)
			if at := now.Add(1); c.badVFs[m.VF].Before(at) {
				c.badVFs[m.VF] = at // nobody else gets it in this Tick
			}
			continue
		}
		again, ok := plan.Resume(c.snap, m, c.opts.Timeouts)
		if !ok || c.exec.Run(executor.Key(again)) != nil {
			c.exec.Forget(m)
			continue
		}
		c.exec.Resume(now, plan.WithUndo(again, c.opts.Timeouts))
		if again.Kind == model.MoveRepair {
			c.repairs.underWay++
		}
	}
	c.resume = waits
}

var _ plan.Busy = busy{}
