package sim

import (
	"context"
	"slices"
	"time"

	"sluice/internal/control/bandwidth"
	"sluice/internal/control/loop"
	"sluice/internal/model"
)

// Engine runs a Core on a World in virtual time.
type Engine struct {
	World   *World
	Core    *loop.Core
	Sample  time.Duration              // time between Snapshots
	OnTick  func(now time.Time)        // after every decision, before its Steps start
	OnEvent func(now time.Time)        // after every change
	OnMove  func(m model.MoveStatus)   // when a move has ended
	OnStep  func(s model.Step) Verdict // when a Step starts; nil: let it run
	OnPart  func(s model.Step, n int)  // when the first n parts of a Step have taken effect

	Bandwidth *bandwidth.Core                      // beside Core; see StartControl
	OnLimits  func(by string, batch []model.Limit) // when an enforcer is given Limits
	OnControl func()                               // after every period of Bandwidth

	stopping *loop.Core                   // gets no more Snapshots
	wake     time.Time                    // the earliest timer scheduled
	followed bool                         // Bandwidth has seen a Snapshot
	seen     *model.Snapshot              // the last that it has seen
	busy     map[string]bool              // enforcers that have not answered yet
	queue    map[string][]bandwidth.Order // Limits that wait for them
	tiers    *bandwidth.Core              // replaces Bandwidth while that is nil
	tiered   *loop.Core                   // the Core that tiers belongs to
}

// Verdict is what should happen to a Step.
type Verdict struct {
	Lose   bool          // neither take effect nor end: the daemon must be killed
	Extra  time.Duration // take longer
	Result error         // end with this instead of taking effect
}

// At schedules do at a time of the world.
func (e *Engine) At(at time.Time, do func()) { e.World.At(at, do) }

// Start schedules the first tick at the world's time.
func (e *Engine) Start() { e.At(e.World.Now, e.tick) }

// Run processes events until the time given, or until ctx ends.
func (e *Engine) Run(ctx context.Context, until time.Time) error {
	for e.World.due(until) {
		if err := ctx.Err(); err != nil {
			return err
		}
		e.World.next()
		e.ended()
		if e.OnEvent != nil {
			e.OnEvent(e.World.Now)
		}
	}
	e.World.Now = until
	return ctx.Err()
}

func (e *Engine) ended() {
	if e.Core == nil {
		return
	}
	for _, m := range e.Core.Ended() {
		if e.OnMove != nil {
			e.OnMove(m)
		}
	}
	if e.Core == e.stopping && e.Core.Settled() {
		e.Kill()
	}
}

func (e *Engine) tick() {
	now := e.World.Now
	e.At(now.Add(e.Sample), e.tick)
	snap, err := e.World.Snapshot(context.Background())
	if err != nil || e.Core == nil || e.Core == e.stopping {
		return // an unknown world: change nothing
	}
	if e.Bandwidth != nil {
		e.Core.LimitPlugs(e.Bandwidth)
	}
	steps := e.Core.Tick(now, snap)
	if e.OnTick != nil {
		e.OnTick(now)
	}
	e.giveUp()
	e.follow(snap)
	e.launch(steps)
	if e.Bandwidth == nil { // otherwise Bandwidth applies the policy's limits too
		e.enforce(snap)
	}
}

// giveUp ends Steps that nobody waits for any more. What they waited for may still happen.
func (e *Engine) giveUp() {
	core := e.Core
	for _, id := range core.GiveUp() {
		e.At(e.World.Now, func() {
			if core == e.Core {
				e.launch(core.Finish(e.World.Now, id, context.Canceled))
			}
		})
	}
}

// enforce applies the placement policy's limits on VFs, if there are any, with a controller that knows no SLAs.
func (e *Engine) enforce(snap *model.Snapshot) {
	core := e.Core
	w := core.World()
	if core.Mode() != model.ModeEnforce || len(w.Tiers) == 0 && !slices.ContainsFunc(snap.PFs, limited) {
		return
	}
	if e.tiered != core {
		// This allocator exists, so there is no error.
		e.tiers, _ = bandwidth.NewCore(bandwidth.Options{Mode: model.ModeEnforce, Allocator: "none", Period: e.Sample, Off: true})
		e.tiered = core
	}
	limiter, tiers := limiter{e.World}, e.tiers
	w.Enforcer = func(k model.LimitKey) (string, model.Tri) { return limiter.Name(), limiter.Can(snap, k) }
	tiers.Follow(e.World.Now, w)
	batch := slices.Clone(tiers.Tick(e.World.Now, nil))
	if len(batch) == 0 {
		return
	}
	e.At(e.World.Now.Add(e.World.Timing.Kernel), func() {
		applied, err := limiter.Apply(context.Background(), snap, bandwidth.LimitsOf(batch))
		if core == e.Core {
			tiers.Applied(e.World.Now, batch, applied, err)
		}
	})
}

// limited reports whether a VF of the PF has a limit.
func limited(pf model.PF) bool {
	return slices.ContainsFunc(pf.VFs, func(vf model.VF) bool { return vf.MaxTxRate > 0 || vf.MaxPackets > 0 })
}

// launch starts Steps. Each takes effect part by part over its duration, then reports.
func (e *Engine) launch(steps []model.Step) {
	for _, s := range steps {
		var v Verdict
		if e.OnStep != nil {
			v = e.OnStep(s)
		}
		if v.Lose {
			continue
		}
		r := &run{Engine: e, core: e.Core, step: s, result: v.Result}
		r.begin(v.Extra)
	}
	e.schedule()
}

// schedule sets a timer for the Core's next retry.
func (e *Engine) schedule() {
	if e.Core == nil {
		return
	}
	next := e.Core.Wake()
	if next.IsZero() || (!e.wake.IsZero() && !next.Before(e.wake) && e.wake.After(e.World.Now)) {
		return
	}
	e.wake = next
	e.At(next, func() {
		if e.Core != nil {
			e.launch(e.Core.Timer(e.World.Now))
		}
	})
}

// Kill ends the daemon. What libvirt and the guest have begun continues, and so does a mirror, but no other part of a Step takes effect
// any more.
func (e *Engine) Kill() {
	e.Core = nil
	e.Bandwidth, e.followed, e.busy, e.queue = nil, false, map[string]bool{}, map[string][]bandwidth.Order{}
	e.World.Reread()
}

// Stop lets the daemon end: it begins no more Moves, and is dead once those in progress have ended or the grace period is over.
func (e *Engine) Stop(grace time.Duration) {
	core := e.Core
	if core == nil || e.stopping == core {
		return
	}
	e.stopping = core
	core.Stop()
	e.At(e.World.Now.Add(grace), func() {
		if e.Core == core {
			e.Kill()
		}
	})
}

// Journal is a journal in memory that survives Kill.
type Journal struct{ open []model.Move }

// Begin implements loop.Journal.
func (j *Journal) Begin(m model.Move) error {
	j.open = append(j.open, m)
	return nil
}

// End implements loop.Journal.
func (j *Journal) End(m model.Move) error {
	for i := range j.open {
		if j.open[i].VM == m.VM && j.open[i].VF == m.VF {
			j.open = append(j.open[:i], j.open[i+1:]...)
			return nil
		}
	}
	return nil
}

// Left lists the Moves that have not ended.
func (j *Journal) Left() []model.Move { return slices.Clone(j.open) }
