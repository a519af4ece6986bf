package loop

import (
	"time"

	"sluice/internal/base/reconcile"
	"sluice/internal/control/executor"
	"sluice/internal/control/plan"
	"sluice/internal/model"
)

// repairEvery is how long the loop waits before it retries a repair that did not end its finding. A finding that was gone and
// came back may be repaired at once. If it keeps coming back, somebody else undoes the repairs, and the wait grows up to
// repairEvery.
const repairEvery = 30 * time.Second

// How many repairs are under way at once. After a start there may be one for every VM: these must neither delay giving out VFs
// nor make VMs that are cut off wait.
const (
	cutOffAtOnce = 64
	othersAtOnce = 8
	queuedAtOnce = 256 // of the others, per tick
)

// repairs holds the repairs that wait and those that were tried.
type repairs struct {
	cutOff   []repair // waiting repairs of VMs that cannot be reached
	others   []repair
	underWay int
	tries    map[repairKey]repairTries
	asked    time.Time // when a user asked for fsck --repair; zero: not asked
}

// repair is a repair that waits for its turn.
type repair struct {
	move model.Move
	key  repairKey
}

// repairKey identifies a finding, to count its repairs. A port that was renamed is another one: what failed under its old name may be
// tried at once under its new one.
type repairKey struct {
	code    string
	subject model.Subject
	step    model.StepKind
	port    string
	mac     model.MAC
}

// repairTries counts the repairs of a finding. It is not a reconcile.Object: a repair that succeeded counts too, since somebody
// may undo it again and again, and only a later Snapshot shows whether it succeeded.
type repairTries struct {
	last  time.Time
	count int
	ended bool // a Snapshot since did not show the finding
}

// due reports whether a finding may be repaired again.
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

// queueRepairs queues repairs: urgent ones always, the rest when a user asked. Those without which a VM cannot be reached at all
// come first.
func (c *Core) queueRepairs(now time.Time) {
	if now.Sub(c.repairs.asked) > repairEvery {
		c.repairs.asked = time.Time{} // repairs that could not be tried by now must be asked for again
	}
	c.repairs.cutOff, c.repairs.others = c.repairs.cutOff[:0], c.repairs.others[:0]
	there := make(map[repairKey]bool, min(len(c.findings), 2*queuedAtOnce))
	queued := map[string]bool{}
	for _, cutOff := range []bool{true, false} { // for one VM, too, what cuts it off comes first
		for i := range c.findings {
			if f := &c.findings[i]; len(f.Repair) > 0 && plan.CutsOff(f.Code) == cutOff {
				c.queueRepair(now, f, there, queued)
			}
		}
	}
	c.forgetRepairs(now, there)
}

// queueRepair queues the repair of a finding if it is due. Each Subject can have one per tick; another waits for a later tick.
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

// forgetRepairs notes which findings have ended and, a while later, forgets them.
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
	return repairKey{code: f.Code, subject: s.Subject, step: s.Kind, port: s.Path.Port(), mac: s.Path.MAC}
}

func repairOf(f *model.Finding) model.Move {
	s := &f.Repair[0]
	return model.Move{
		Kind: model.MoveRepair, VM: s.Subject.VM, VMName: s.Subject.VMName, NIC: s.Subject.NIC, VF: s.VFID(), Steps: f.Repair,
		Reason: model.Reason{VM: s.Subject.VM, Code: model.CodeRepair, Detail: f.Name()},
		Cause:  model.Cause{Kind: model.CauseFinding, Detail: f.Code},
	}
}

// beginRepairs starts the repairs that can start, up to most under way at once. A repair needs no journal: a finding shows again
// by itself, and a VM that is cut off must not wait for a disk.
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
		c.repairs.tries[r.key] = repairTries{last: now, count: t.count + 1} // counted here, not when queued: it may have had to wait
		c.repairs.underWay++
		out = append(out, c.exec.Do(now, plan.WithUndo(r.move, c.opts.Timeouts)))
	}
	return rest, out
}
