package loop

import (
	"errors"
	"slices"
	"time"

	"sluice/internal/control/executor"
	"sluice/internal/control/plan"
	"sluice/internal/model"
)

// Incoming chooses VFs for NICs of a VM that migrates in, and returns the Steps that prepare them. The caller runs these Steps,
// and makes Snapshots show the VFs as somebody else's until libvirt lists the VM. kept are VFs that are reserved already, for
// this VM or others.
func (c *Core) Incoming(vm model.Subject, nics []model.NIC, kept map[model.VFID]plan.Kept) ([]model.Step, error) {
	switch {
	case c.opts.Mode != model.ModeEnforce:
		return nil, errors.New("sluiced is in observe mode here and gives no VFs")
	case c.rules.Drain:
		return nil, errors.New("all VFs are being taken back here (`sluice drain`)")
	case c.snap == nil || c.target == nil:
		return nil, errors.New("sluiced has not observed this host yet")
	}
	steps, err := plan.ForIncoming(c.snap, vm, nics, kept, c.expected, c.opts.Timeouts)
	for i := range steps {
		switch s := &steps[i]; s.Kind { // if the VM does not arrive, all of it is cleared
		case model.StepSetMAC:
			c.checker.Used(s.VF.ID)
		case model.StepAddSelf:
			c.checker.Added(model.Filter{PF: s.Path.PF, MAC: s.Path.MAC})
		}
	}
	return steps, err
}

// expected reports whether a VF is assigned to a VM or being moved.
func (c *Core) expected(id model.VFID) bool {
	is := func(m model.Move) bool { return m.VF == id }
	return slices.ContainsFunc(c.waiting, is) || slices.ContainsFunc(c.resume, is) ||
		slices.ContainsFunc(c.exec.Runs(), func(r *executor.Run) bool { return is(r.Move) }) ||
		slices.ContainsFunc(c.target.Assign, func(a model.Assignment) bool { return a.VF == id })
}

// IncomingLimit is how long a VF is kept for a VM that migrates in, until libvirt lists it.
const IncomingLimit = time.Minute
