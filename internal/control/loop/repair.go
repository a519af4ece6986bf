package loop

import (
	"time"

	"sluice/internal/base/reconcile"
	"sluice/internal/control/executor"
	"sluice/internal/control/plan"
	"sluice/internal/model"
)

// repairEvery is how long the loop waits before it tries again to repair a finding that
// a try did not end. One that came back may be repaired at once, but when it goes on
// coming back, others undo the repairs, and the wait grows to the same.
const repairEvery = 30 * time.Second

// How many repairs are under way at once. After a start there may be one for every VM:
// those must neither keep VFs from being given out nor VMs that are cut off waiting.
const (
	cutOffAtOnce = 64
	othersAtOnce = 8
	queuedAtOnce = 256 // of the others, per tick
)

// repairs are the ones that wait and those that were tried.
type repairs struct {
	cutOff   []repair // that wait, of VMs that cannot be reached
	others   []repair
	underWay int
	tries    map[repairKey]repairTries
	asked    time.Time // when a person asked for fsck --repair; zero: nobody did
}

// repair is a repair that waits for its turn.
type repair struct {
	move model.Move
	key  repairKey
}

// repairKey tells tries to repair one finding from those to repair another.
type repairKey struct {
	code    string
	subject model.Subject
	step    model.StepKind
	pf      string
	mac     model.MAC
}

// repairTries remembers tries to repair a finding. It is not a reconcile.Object: a repair that worked counts as well, since
// somebody may undo it again and again, and whether it worked shows only at a later look.
type repairTries struct {
	last  time.Time
	count int
	ended bool // it was not found once since
}

// due says whether a finding may be repaired again.
func (t repairTries) due(now time.Time) bool {
	wait := repairEvery
	switch {
	case t.count == 0:
		wait = 0
	case t.ended:
		wait = reconcile.Backoff{First: time.Second, Most: repairEvery}.After(t.count - 2)
	}
	return now.Sub(t.last) >= wait
}

// queueRepairs queues repairs: of what cuts a VM off always, of the rest when a person
// asked. The first are those without which a VM cannot be reached at all.
func (c *Core) queueRepairs(now time.Time) {
	if now.Sub(c.repairs.asked) > repairEvery {
		c.repairs.asked = time.Time{} // what could not be tried by now has to be asked for again
	}
	c.repairs.cutOff, c.repairs.others = c.repairs.cutOff[:0], c.repairs.others[:0]
	there := make(map[repairKey]bool, min(len(c.findings), 2*queuedAtOnce))
	queued := map[string]bool{}
	for _, cutOff := range []bool{true, false} { // of one VM, too, what cuts it off has the first turn
		for i := range c.findings {
			if f := &c.findings[i]; len(f.Repair) > 0 && plan.CutsOff(f.Code) == cutOff {
				c.queueRepair(now, f, there, queued)
			}
		}
	}
	c.forgetRepairs(now, there)
}

// queueRepair queues the repair of a finding if it is due. There may be one for each
// Subject; another has its turn at another tick.
func (c *Core) queueRepair(now time.Time, f *model.Finding, there map[repairKey]bool, queued map[string]bool) {
	r, cutOff := repair{key: keyOf(f)}, plan.CutsOff(f.Code)
	tries, tried := c.repairs.tries[r.key]
	if tried {
		there[r.key] = true
	}
	due := plan.Urgent(f.Code) && tries.due(now)
	if asked := !c.repairs.asked.IsZero() && tries.last.Before(c.repairs.asked); !due && !asked {
		return
	}
	if !cutOff && len(c.repairs.others) >= queuedAtOnce {
		return
	}
	r.move = repairOf(f)
	k := executor.Key(r.move)
	if c.exec.Run(k) != nil || queued[k] {
		return
	}
	queued[k] = true
	if cutOff {
		c.repairs.cutOff = append(c.repairs.cutOff, r)
	} else {
		c.repairs.others = append(c.repairs.others, r)
	}
}

// forgetRepairs notes which findings are over and, a while later, that they ever were.
func (c *Core) forgetRepairs(now time.Time, there map[repairKey]bool) {
	for key, t := range c.repairs.tries {
		if there[key] {
			continue
		}
		if t.ended = true; now.Sub(t.last) > 2*repairEvery {
			delete(c.repairs.tries, key)
		} else {
			c.repairs.tries[key] = t
		}
	}
}

func keyOf(f *model.Finding) repairKey {
	s := &f.Repair[0]
	return repairKey{code: f.Code, subject: s.Subject, step: s.Kind, pf: s.Path.PF, mac: s.Path.MAC}
}

func repairOf(f *model.Finding) model.Move {
	s := &f.Repair[0]
	return model.Move{
		Kind: model.MoveRepair, VM: s.Subject.VM, VMName: s.Subject.VMName, NIC: s.Subject.NIC, VF: s.VFID(), Steps: f.Repair,
		Reason: model.Reason{VM: s.Subject.VM, Code: model.CodeRepair, Detail: f.Name()},
	}
}

// beginRepairs starts those that can start, up to a number under way at once. A repair
// needs no journal: a finding shows again by itself, and a VM that is cut off must not
// wait for a disk.
func (c *Core) beginRepairs(now time.Time, queue []repair, most int, out []model.Step) ([]repair, []model.Step) {
	rest := queue[:0]
	for i, r := range queue {
		if c.repairs.underWay >= most {
			rest = append(rest, queue[i:]...)
			break
		}
		if !c.ready(r.move) {
			rest = append(rest, r)
			continue
		}
		t := c.repairs.tries[r.key]
		c.repairs.tries[r.key] = repairTries{last: now, count: t.count + 1} // not when it is queued: it may have to wait
		c.repairs.underWay++
		out = append(out, c.exec.Do(now, plan.WithUndo(r.move, c.opts.Timeouts)))
	}
	return rest, out
}
