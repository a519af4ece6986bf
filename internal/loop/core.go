package loop

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"sluice/internal/model"
	"sluice/internal/placement"
	"sluice/internal/plan"
)

// Core decides, plans and keeps track of Moves. It is not safe for concurrent use.
type Core struct {
	opts    Options
	journal Journal
	decider *placement.Decider
	rules   model.Rules

	snap     *model.Snapshot
	target   *model.Target
	limits   []model.Limit                // to be applied
	unmet    map[model.LimitKey]time.Time // limits that could not be applied, and when
	findings []model.Finding
	checker  plan.Checker

	active  map[model.VMID]*move // one per VM
	steps   map[uint64]*move     // by the Step under way
	waiting []model.Move         // planned, not started: the VF is not free or all hands are busy
	done    []doneMove           // ended, perhaps after the last Snapshot was taken
	resume  []model.Move         // left by an earlier run
	fails   map[model.VMID]*failure
	badVFs  map[model.VFID]time.Time
	idle    map[model.VMID]time.Time // since when a holder's guest has not used its VF
	mended  map[string]time.Time     // last try to mend a finding
	costs   map[model.VMID]*costs
	sum     costs

	nextID   uint64
	totals   model.Totals
	recent   []model.MoveStatus
	ended    []model.MoveStatus // since the last call of Ended
	tickTime time.Duration
	started  time.Time
	asked    time.Time // when a person asked for fsck --repair; zero: nobody did
}

// move is a Move under way.
type move struct {
	model.MoveStatus
	retryAt time.Time
	stepID  uint64
	key     model.VMID // its Subject's
	asked   int        // how often the guest was asked again to give the VF up
	cause   error      // why it is being undone
}

// doneMove is what an ended Move left true.
type doneMove struct {
	vm    model.VMID
	known bool       // it is known which VF the VM has now
	vf    model.VFID // NoVF after an unplug
	free  model.VFID // the VF that an unplug freed
	used  model.VFID // the VF that it set up or cleared
	at    time.Time
}

// failure counts a VM's failed moves.
type failure struct {
	Count int
	Until time.Time
	Text  string
	Give  bool // it gives up the VF it has: its guest does not use it
}

// NewCore makes a Core. left are Moves that an earlier run did not end.
func NewCore(rules model.Rules, opts Options, journal Journal, left []model.Move) (*Core, error) {
	d, err := placement.New(rules)
	if err != nil {
		return nil, err
	}
	return &Core{
		opts: opts, journal: journal, decider: d, rules: rules, resume: left,
		active: map[model.VMID]*move{}, steps: map[uint64]*move{},
		fails: map[model.VMID]*failure{}, badVFs: map[model.VFID]time.Time{},
		idle: map[model.VMID]time.Time{}, mended: map[string]time.Time{}, costs: map[model.VMID]*costs{},
		unmet: map[model.LimitKey]time.Time{},
	}, nil
}

// SetRules changes what placement is to do; moves under way go on.
func (c *Core) SetRules(r model.Rules) error {
	if err := c.decider.SetRules(r); err != nil {
		return err
	}
	c.rules = r
	return nil
}

// SetOptions changes the knobs; moves under way keep their deadlines.
func (c *Core) SetOptions(o Options) { c.opts = o }

// Repair asks to mend every finding that is Sluice's to mend, as soon as its VM is free.
func (c *Core) Repair(now time.Time) { c.asked = now }

// Forgive ends a VM's waiting time after failed moves: a person wants it tried now.
func (c *Core) Forgive(vm model.VMID) { delete(c.fails, vm) }

// Tick takes a new Snapshot, which the Core owns from now on, and returns Steps to start.
func (c *Core) Tick(now time.Time, snap *model.Snapshot) []model.Step {
	if c.started.IsZero() {
		c.started = now
	}
	c.totals.Ticks++
	if c.snap != nil && snap.Time.Before(c.snap.Time) {
		c.totals.LateSamples++ // an older picture than the one in hand: not worth deciding on
		return c.advance(now)
	}
	c.snap = snap
	c.forget(snap, now)
	c.takeUpLeft(now)
	c.watchIdle(now)
	hints := c.hints(now)
	c.target = c.decider.Decide(now, snap, hints)
	c.limits = plan.Limits(snap, c.target, busy{c})
	c.waiting = plan.Diff(snap, c.target, busy{c}, c.opts.Timeouts)
	c.findings = c.checker.Check(snap, busy{c}, c.opts.Timeouts)
	if c.opts.Mode != model.ModeEnforce {
		return nil
	}
	c.mend(now)
	return c.advance(now)
}

// advance starts what waits and can start, and retries that are due.
func (c *Core) advance(now time.Time) []model.Step {
	var out []model.Step
	for _, id := range sortedKeys(c.active) {
		if m := c.active[id]; m.stepID == 0 && !now.Before(m.retryAt) {
			out = append(out, c.start(m))
		}
	}
	if c.opts.Mode != model.ModeEnforce {
		return out
	}
	if len(c.waiting) == 0 {
		return out
	}
	// Plugs first: a VF lying free serves nobody. They stand last in the plan.
	slices.SortStableFunc(c.waiting, func(a, b model.Move) int { return cmp.Compare(weight(a.Kind), weight(b.Kind)) })
	rest := c.waiting[:0]
	for _, m := range c.waiting {
		full := len(c.active) >= max(1, c.opts.Parallel) && m.Kind != model.MoveRepair // a VM cut off waits for nobody
		if full || !c.ready(m) {
			rest = append(rest, m)
			continue
		}
		if s, ok := c.begin(now, m); ok {
			out = append(out, s)
		}
	}
	c.waiting = rest
	return out
}

func weight(k model.MoveKind) int {
	switch k {
	case model.MoveRepair:
		return 0
	case model.MovePlug:
		return 1
	}
	return 2
}

// ready says whether a Move can start: its VM has no other and, for a plug, its VF is
// free. What is to be repaired was found before any move of the VM that ended since;
// the next Snapshot shows whether it is still so.
func (c *Core) ready(m model.Move) bool {
	if m.VM != "" && c.active[m.VM] != nil {
		return false
	}
	if m.Kind == model.MoveRepair && (busy{c}).VM(m.VM) {
		return false
	}
	for _, a := range c.active {
		if m.VF != model.NoVF && a.Move.VF == m.VF {
			return false
		}
	}
	if m.Kind != model.MovePlug {
		return true
	}
	if has := holds(c.snap.FindVM(m.VM)); has != model.NoVF && has != m.VF && !c.freed(has) {
		return false // it gives up another VF first: a guest has room for one
	}
	vf := c.snap.FindVF(m.VF)
	return c.freed(m.VF) || (vf != nil && (vf.Owner == model.OwnerFree || vf.Holder == m.VM))
}

// freed says whether an unplug freed the VF after the Snapshot was taken.
func (c *Core) freed(vf model.VFID) bool {
	return slices.ContainsFunc(c.done, func(d doneMove) bool { return d.free == vf && vf != model.NoVF })
}

func (c *Core) begin(now time.Time, m model.Move) (model.Step, bool) {
	if m.Kind == model.MoveRepair {
		c.mended[mendName(m)] = now // not when it is queued: it may have to wait
	}
	if err := c.journal.Begin(m); err != nil {
		c.fail(now, m, err) // without a journal a crash would leak: do not start
		return model.Step{}, false
	}
	return c.start(c.take(now, m)), true
}

// take makes a move one that is under way.
func (c *Core) take(now time.Time, m model.Move) *move {
	a := &move{MoveStatus: model.MoveStatus{Move: m, Started: now}, key: key(m)}
	c.active[a.key] = a
	return a
}

// key is what one move at a time works on: the VM or, where there is none, the VF or PF.
func key(m model.Move) model.VMID { return model.VMID(m.Steps[0].Subject.Key()) }

func (c *Core) start(m *move) model.Step {
	c.nextID++
	m.stepID = c.nextID
	s := m.Move.Steps[m.Step]
	s.ID = m.stepID
	c.steps[s.ID] = m
	return s
}

// Finish takes the result of a Step and returns Steps to start. Results of Steps it
// does not know are ignored.
func (c *Core) Finish(now time.Time, id uint64, err error) []model.Step {
	m := c.steps[id]
	if m == nil {
		return nil
	}
	delete(c.steps, id)
	m.stepID = 0
	switch {
	case err == nil:
		c.succeed(now, m)
	case !m.Undoing && c.retry(now, m, err):
	case m.Undoing && m.Try < c.opts.Retries && !errors.Is(err, model.ErrGone):
		c.again(now, m)
	case m.Undoing:
		c.skip(now, m, err)
	default:
		c.undo(now, m, err)
	}
	return c.advance(now)
}

// succeed goes on to the next Step or ends the move.
func (c *Core) succeed(now time.Time, m *move) {
	m.Step++
	m.Try = 0
	if m.Step < len(m.Move.Steps) {
		m.retryAt = now
		return
	}
	c.end(now, m)
}

// skip passes over what cannot be undone: the next Snapshot shows it, and it is mended
// from there. A VF that did not leave the guest keeps its settings: it may be in use.
func (c *Core) skip(now time.Time, m *move, err error) {
	if k := m.Move.Steps[m.Step].Kind; (k == model.StepDetach || k == model.StepWaitGone) && !errors.Is(err, model.ErrGone) {
		for m.Step+1 < len(m.Move.Steps) && m.Move.Steps[m.Step+1].Kind != model.StepCloseWindow {
			m.Step++
		}
	}
	c.succeed(now, m)
}

func (c *Core) retry(now time.Time, m *move, err error) bool {
	if m.Try >= c.opts.Retries || errors.Is(err, model.ErrPermanent) || errors.Is(err, model.ErrGone) {
		return false
	}
	m.Error = err.Error()
	if m.Move.Steps[m.Step].Kind == model.StepWaitGone {
		// The request may be lost (an ACPI unplug before the guest listens): ask again.
		if m.asked++; m.asked > c.opts.Retries {
			return false
		}
		m.Step--
	}
	c.again(now, m)
	return true
}

func (c *Core) again(now time.Time, m *move) {
	m.retryAt = now.Add(c.opts.RetryDelay << m.Try)
	m.Try++
	c.totals.Retries++
}

// undo turns a failed move into the Steps that leave the world sound.
func (c *Core) undo(now time.Time, m *move, err error) {
	failed := m.Move.Steps[m.Step]
	m.cause = err
	m.Error = string(failed.Kind) + ": " + err.Error()
	m.Undoing = true
	m.Move.Steps = plan.Undo(m.Move, m.Step, errors.Is(err, model.ErrGone), c.opts.Timeouts)
	m.Step, m.Try, m.retryAt = 0, 0, now
	switch failed.Kind {
	case model.StepBindVFIO, model.StepSetVF, model.StepSetMAC:
		c.badVFs[m.Move.VF] = now.Add(c.opts.Backoff)
	}
	if len(m.Move.Steps) == 0 {
		c.end(now, m)
	}
}

// end closes the books on a move.
func (c *Core) end(now time.Time, m *move) {
	delete(c.active, m.key)
	_ = c.journal.End(m.Move) // a move that stays in the journal is resumed, found done, and ended again
	m.Ended = now
	if m.cause == nil {
		m.Error = "" // of a try before the one that worked
	}
	c.remember(m.MoveStatus)
	d := doneMove{vm: m.Move.VM, used: m.Move.VF, at: now}
	if m.cause != nil {
		c.fail(now, m.Move, m.cause)
	} else {
		c.account(m.MoveStatus)
		switch m.Move.Kind {
		case model.MovePlug:
			d.known, d.vf = true, m.Move.VF
			delete(c.fails, m.Move.VM)
		case model.MoveUnplug:
			d.known, d.free = true, m.Move.VF
			if f := c.fails[m.Move.VM]; f != nil && f.Give {
				f.Give = false // it rests without the VF that it did not use
			} else {
				delete(c.fails, m.Move.VM)
			}
		}
	}
	if d.vm != "" {
		c.done = append(c.done, d)
	}
}

// fail counts a failed move and makes its VM rest before the next.
func (c *Core) fail(now time.Time, m model.Move, err error) {
	c.totals.Failed++
	if (m.Kind != model.MovePlug && m.Kind != model.MoveUnplug) || errors.Is(err, model.ErrGone) {
		return
	}
	c.spent(m.VM, func(k *costs) { k.Failed++ })
	c.rest(now, m.VM, string(m.Kind)+" of "+m.VF.String()+" failed: "+err.Error())
}

// rest makes a VM wait, twice as long each time.
func (c *Core) rest(now time.Time, vm model.VMID, why string) *failure {
	f := c.fails[vm]
	if f == nil {
		f = &failure{}
		c.fails[vm] = f
	}
	wait := c.opts.BackoffMax
	if f.Count < 16 {
		wait = min(wait, c.opts.Backoff<<f.Count)
	}
	f.Count++
	f.Until = now.Add(wait)
	f.Text, f.Give = why, false
	return f
}

func sortedKeys(m map[model.VMID]*move) []model.VMID { return slices.Sorted(maps.Keys(m)) }
