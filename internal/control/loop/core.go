package loop

import (
	"errors"
	"maps"
	"slices"
	"time"

	"sluice/internal/base/reconcile"
	"sluice/internal/control/executor"
	"sluice/internal/control/placement"
	"sluice/internal/control/plan"
	"sluice/internal/model"
)

// Core is the placement controller: it decides which VM gets which VF, plans the Moves that lead there and the repairs that are
// due, and starts them in order. The executor carries the Moves out. Core is not safe for concurrent use.
type Core struct {
	opts    Options
	decider *placement.Decider
	rules   model.Rules

	snap     *model.Snapshot
	target   *model.Target
	plugs    Plugs // what must be in place before a plug; nil: nothing
	findings []model.Finding
	checker  *plan.Checker

	exec    *executor.Executor
	waiting []model.Move      // planned, not begun: the VF is not free, or the limit of parallel moves is reached
	resume  []model.Move      // Moves that an earlier run began
	giveUp  []uint64          // IDs of Steps of cancelled Moves that only wait
	journal reconcile.Failure // of writing the journal
	repairs repairs
	unseen  unseen

	fails   map[model.NICID]failure
	badVFs  map[model.VFID]time.Time  // not used until that time
	idle    map[model.NICID]time.Time // since when a holder's guest has not used its VF
	costs   ledger
	filters ownFilters
	causes  causes
	carried carried
	record  record
}

// NewCore makes a Core. unfinished are Moves that an earlier run began and did not end.
func NewCore(rules model.Rules, opts Options, journal executor.Journal, unfinished []model.Move) (*Core, error) {
	d, err := placement.New(rules)
	if err != nil {
		return nil, err
	}
	return &Core{
		opts: opts, decider: d, rules: rules, resume: unfinished,
		exec:    executor.New(opts.executor(), journal),
		checker: plan.NewChecker(),
		repairs: repairs{tries: map[repairKey]repairTries{}},
		unseen:  unseen{moves: map[model.VMID][]endedMove{}, freed: map[model.VFID]time.Time{}},
		fails:   map[model.NICID]failure{}, badVFs: map[model.VFID]time.Time{}, idle: map[model.NICID]time.Time{},
		costs:   ledger{byVM: map[model.VMID]costs{}},
		filters: ownFilters{added: map[model.Filter]time.Time{}},
		causes:  causes{down: map[string]time.Time{}},
	}, nil
}

// SetRules changes the placement rules; on an error it changes nothing. Moves under way go on, except plugs that are no longer
// wanted: see Tick.
func (c *Core) SetRules(r model.Rules) error {
	if err := c.decider.SetRules(r); err != nil {
		return err
	}
	c.causes.reloaded = c.causes.reloaded || !sameConfig(c.rules, r)
	c.rules = r
	return nil
}

// SetOptions changes the options; moves under way keep their deadlines.
func (c *Core) SetOptions(o Options) {
	c.opts = o
	c.exec.SetOptions(o.executor())
}

// Repair requests the repair of every finding that Sluice can repair, as soon as its VM is free.
func (c *Core) Repair(now time.Time) { c.repairs.asked = now }

// Forgive ends a VM's backoff after failed moves, at a user's request.
func (c *Core) Forgive(vm model.VMID) {
	maps.DeleteFunc(c.fails, func(id model.NICID, _ failure) bool { return id.VM == vm })
}

// Foresee returns why a VM will hold a VF or not by the present rules, as far as that follows from them and from what stands in the
// way, not from the policy's memory; zero: that is not known. It changes nothing.
func (c *Core) Foresee(now time.Time, vm model.VMID) model.Reason {
	if c.snap == nil {
		return model.Reason{}
	}
	d, err := placement.New(c.rules)
	if err != nil {
		return model.Reason{} // SetRules would have refused them
	}
	for _, r := range d.Decide(now, c.snap, c.hints(now)).Reasons {
		if r.VM == vm {
			return r
		}
	}
	return model.Reason{}
}

// Tick takes a new Snapshot, which the Core owns from then on, and returns Steps to start.
func (c *Core) Tick(now time.Time, snap *model.Snapshot) []model.Step {
	if c.record.started.IsZero() {
		c.record.started = now
	}
	c.record.totals.Ticks++
	if c.snap != nil && snap.Time.Before(c.snap.Time) {
		c.record.totals.LateSamples++ // older than the current Snapshot: not to be decided on
		return c.advance(now)
	}
	c.snap = snap
	c.carried.count(snap)
	c.forget(snap, now)
	c.resumeLeft(now)
	c.watchIdle(now)
	hints := c.hints(now)
	c.target = c.decider.Decide(now, snap, hints)
	if c.causes.reloaded {
		c.record.reloaded = now
	}
	moves := plan.Diff(snap, c.target, busy{c}, c.opts.Timeouts)
	c.tellCauses(now, moves, c.waiting)
	c.waiting = plugsFirst(moves)
	c.expectPlugs()
	c.findings = c.checker.Check(snap, busy{c}, c.opts.Timeouts)
	if c.opts.Mode != model.ModeEnforce {
		c.repairs.cutOff, c.repairs.others = nil, nil
		return nil
	}
	c.tellWaits()
	c.cancelPlugs(now)
	c.queueRepairs(now)
	return c.advance(now)
}

// expectPlugs tells the Checker which PFs' VFs are about to be used.
func (c *Core) expectPlugs() {
	if c.opts.Mode != model.ModeEnforce {
		return
	}
	for _, r := range c.exec.Runs() {
		if r.Move.Kind == model.MovePlug {
			c.checker.Expect(r.Move.VF.PF)
		}
	}
	for i := range c.waiting {
		if c.waiting[i].Kind == model.MovePlug {
			c.checker.Expect(c.waiting[i].VF.PF)
		}
	}
}

// plugsFirst moves the plugs, which are last in a plan, before the unplugs: a free VF serves nobody.
func plugsFirst(moves []model.Move) []model.Move {
	i := slices.IndexFunc(moves, func(m model.Move) bool { return m.Kind == model.MovePlug })
	if i <= 0 {
		return moves
	}
	return slices.Concat(moves[i:], moves[:i])
}

// advance starts whatever can start now.
func (c *Core) advance(now time.Time) []model.Step {
	out := c.next(now)
	c.noteFilters(now, out)
	return out
}

// next starts the Steps that are due and the waiting Moves that can start: repairs of VMs that are cut off come first, other
// repairs last.
func (c *Core) next(now time.Time) []model.Step {
	out := c.exec.Due(now)
	if c.opts.Mode != model.ModeEnforce {
		return out
	}
	c.repairs.cutOff, out = c.beginRepairs(now, c.repairs.cutOff, cutOffAtOnce, out)
	rest := c.waiting[:0]
	for i, m := range c.waiting {
		if c.exec.Len()-c.repairs.underWay >= max(1, c.opts.Parallel) {
			rest = append(rest, c.waiting[i:]...)
			break
		}
		if s, ok := c.begin(now, m); ok {
			out = append(out, s)
		} else {
			rest = append(rest, m)
		}
	}
	c.waiting = rest
	c.repairs.others, out = c.beginRepairs(now, c.repairs.others, othersAtOnce, out)
	return out
}

// begin starts a Move if it can start now.
func (c *Core) begin(now time.Time, m model.Move) (model.Step, bool) {
	if c.journal.Resting(now) || !c.ready(m) {
		return model.Step{}, false
	}
	if m.Kind == model.MovePlug && c.plugs != nil {
		c.plugs.Expect(nicOf(m))
	}
	if c.limitPlug(&m) != "" {
		return model.Step{}, false
	}
	s, err := c.exec.Begin(now, plan.WithUndo(m, c.opts.Timeouts))
	c.noteJournal(now, err)
	return s, err == nil
}

// ready reports whether a Move can start: its VM has no other Move and, for a plug, its VF is free. A repair need not wait for
// Moves of the VM's other NICs. If a Move of its NIC or VF has ended since the finding, the repair waits for the next Snapshot,
// which shows whether the finding still applies.
func (c *Core) ready(m model.Move) bool {
	switch {
	case c.exec.Run(executor.Key(m)) != nil:
		return false
	case m.Kind == model.MoveRepair && (m.VM != "" && (busy{c}).NIC(nicOf(m)) || c.unseen.used(m.VF)):
		return false
	case m.Kind != model.MoveRepair && c.underWay(m.VM):
		return false
	}
	for _, r := range c.exec.Runs() {
		if m.VF != model.NoVF && r.Move.VF == m.VF {
			return false
		}
	}
	if m.Kind != model.MovePlug {
		return true
	}
	if c.otherWithoutLink(nicOf(m)) {
		return false // its unplug is more urgent
	}
	has := holds(c.snap, nicOf(m))
	if has != model.NoVF && has != m.VF && !c.unseen.isFreed(has) {
		return false // it must give up another VF first: a NIC has one at most
	}
	vf := c.snap.FindVF(m.VF)
	return c.unseen.isFreed(m.VF) || (vf != nil && (vf.Owner == model.OwnerFree || has == m.VF))
}

// Finish takes the result of a Step and returns Steps to start. It ignores results of unknown Steps.
func (c *Core) Finish(now time.Time, id uint64, err error) []model.Step {
	r := c.exec.Finish(now, id, err)
	if r == nil {
		return nil
	}
	if r.Failed.ID == id && r.Failed.Flow.Blames {
		c.badVFs[r.Move.VF] = now.Add(c.opts.Backoff)
	}
	if r.Over() {
		c.close(now, r)
	}
	return c.advance(now)
}

// close records a Run that has ended.
func (c *Core) close(now time.Time, r *executor.Run) {
	c.record.add(r.MoveStatus)
	if r.Move.Kind == model.MoveRepair {
		c.repairs.underWay--
	}
	d := endedMove{nic: r.Move.NIC, used: r.Move.VF, at: now}
	for i := range r.Move.Steps {
		if p := &r.Move.Steps[i].Path; p.Network != "" {
			d.network, d.mac = p.Network, p.MAC
		}
	}
	switch {
	case r.Cancelled(): // nobody's fault
	case r.Cause() != nil:
		c.fail(now, r.Move, r.Cause())
	default:
		c.account(r.MoveStatus)
		c.worked(r.Move, &d)
	}
	if vm := r.Move.VM; vm != "" {
		c.unseen.moves[vm] = append(c.unseen.moves[vm], d)
	}
}

// worked records the state that a successful Move left.
func (c *Core) worked(m model.Move, d *endedMove) {
	switch m.Kind {
	case model.MovePlug:
		d.known, d.vf = true, m.VF
		delete(c.fails, nicOf(m))
	case model.MoveUnplug:
		d.known = true
		c.unseen.freed[m.VF] = d.at
		if f := c.fails[nicOf(m)]; f.Give {
			f.Give = false // it backs off without the VF that it did not use
			c.fails[nicOf(m)] = f
		} else {
			delete(c.fails, nicOf(m))
		}
	}
}

var (
	errUnwanted = errors.New("the VM may have no VF any more")
	errInTheWay = errors.New("another NIC of the VM must leave a VF without link first")
)

// cancelPlugs cancels plugs of VMs that are no longer to have a VF (a stuck plug would keep its VF for as long as the guest
// ignores it). It also cancels those that keep another NIC of their VM on a VF whose PF has no link: that NIC is cut off until
// its own Move can start.
func (c *Core) cancelPlugs(now time.Time) {
	for _, r := range slices.Clone(c.exec.Runs()) {
		if r.Move.Kind != model.MovePlug {
			continue
		}
		why := errUnwanted
		if rule := c.rules.For(r.Move.VM, r.Move.VMName); !rule.Forbid && !c.rules.Drain {
			if why = errInTheWay; !c.otherWithoutLink(nicOf(r.Move)) {
				continue
			}
		}
		if id := c.exec.Cancel(now, r, why); id != 0 {
			c.giveUp = append(c.giveUp, id)
		}
		if r.Over() {
			c.close(now, r)
		}
	}
}

// otherWithoutLink reports whether another NIC of the VM is on a VF of ours whose PF has no link.
func (c *Core) otherWithoutLink(id model.NICID) bool {
	vm := c.snap.FindVM(id.VM)
	return vm != nil && slices.ContainsFunc(vm.NICs, func(n model.NIC) bool {
		pf := c.snap.FindPF(n.Ours().PF)
		return n.Alias != id.NIC && pf != nil && !pf.LinkUp && !c.unseen.isFreed(n.VF)
	})
}

// GiveUp lists Steps under way that only wait and whose results are no longer needed.
func (c *Core) GiveUp() []uint64 {
	out := c.giveUp
	c.giveUp = nil
	return out
}
