package loop

import (
	"time"

	"sluice/internal/executor"
	"sluice/internal/model"
	"sluice/internal/plan"
)

// repairEvery is how long the loop waits before it tries again to repair the same finding.
const repairEvery = 30 * time.Second

// queueRepairs queues repairs: of what cuts a VM off always, of the rest when a person asked.
func (c *Core) queueRepairs(now time.Time) {
	if now.Sub(c.asked) > repairEvery {
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
		name := repairName(m)
		there[name] = true
		last, tried := c.repairs[name]
		due := plan.Urgent(f.Code) && (!tried || now.Sub(last) >= repairEvery)
		if asked := !c.asked.IsZero() && (!tried || last.Before(c.asked)); !due && !asked {
			continue
		}
		if c.free(m) {
			c.waiting = append(c.waiting, m)
		}
	}
	for name := range c.repairs {
		if !there[name] {
			delete(c.repairs, name) // should it come back, it is repaired at once
		}
	}
}

// repairName tells tries to repair one finding from those to repair another.
func repairName(m model.Move) string {
	return m.Reason.Detail + " " + m.Steps[0].String()
}

// free says whether a repair could start: none of its VM or VF is under way or waits. If
// not, it has its turn at another tick.
func (c *Core) free(m model.Move) bool {
	k := executor.Key(m)
	if c.exec.Run(k) != nil {
		return false
	}
	for i := range c.waiting {
		if c.waiting[i].Kind == model.MoveRepair && executor.Key(c.waiting[i]) == k {
			return false
		}
	}
	return true
}
