package sim

import (
	"container/heap"
	"context"
	"time"

	"sluice/internal/loop"
	"sluice/internal/model"
)

// Engine runs a Core on a World in virtual time.
type Engine struct {
	World   *World
	Core    *loop.Core
	Sample  time.Duration              // time between Snapshots
	OnTick  func(now time.Time)        // after every decision, before its Steps start
	OnEvent func(now time.Time)        // after anything changed
	OnMove  func(m model.MoveStatus)   // when a move has ended
	OnStep  func(s model.Step) Verdict // when a Step starts; nil: let it run

	queue events
	seq   uint64
	wake  time.Time // the earliest timer scheduled
}

// Verdict is what a test wants to happen to a Step.
type Verdict struct {
	Lose   bool          // it neither takes effect nor ends: the daemon must be killed
	Extra  time.Duration // it takes longer
	Result error         // it ends with this instead of taking effect
}

type event struct {
	at  time.Time
	seq uint64 // equal times keep their order
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if e[i].at.Equal(e[j].at) {
		return e[i].seq < e[j].seq
	}
	return e[i].at.Before(e[j].at)
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// At schedules do at a time in the world.
func (e *Engine) At(at time.Time, do func()) {
	e.seq++
	heap.Push(&e.queue, event{at: at, seq: e.seq, do: do})
}

// Start schedules the first tick at the world's time.
func (e *Engine) Start() { e.At(e.World.Now, e.tick) }

// Run works off events until the time given, or until ctx ends.
func (e *Engine) Run(ctx context.Context, until time.Time) error {
	for len(e.queue) > 0 && !e.queue[0].at.After(until) {
		if err := ctx.Err(); err != nil {
			return err
		}
		ev := heap.Pop(&e.queue).(event)
		e.World.Now = ev.at
		ev.do()
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
}

func (e *Engine) tick() {
	now := e.World.Now
	e.At(now.Add(e.Sample), e.tick)
	snap, err := e.World.Snapshot(context.Background())
	if err != nil || e.Core == nil {
		return // an unknown world: change nothing
	}
	steps := e.Core.Tick(now, snap)
	if e.OnTick != nil {
		e.OnTick(now)
	}
	e.giveUp()
	e.launch(steps)
	e.enforce(snap)
}

// giveUp ends Steps that nobody waits for any more. What they waited for may happen yet.
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

// enforce applies the Limits that are not true.
func (e *Engine) enforce(snap *model.Snapshot) {
	core, limiter := e.Core, e.World.Limiter()
	batch := core.Limits(e.World.Now, limiter.Can)
	if len(batch) == 0 {
		return
	}
	e.At(e.World.Now.Add(e.World.Timing.Kernel), func() {
		applied, _ := limiter.Apply(context.Background(), snap, batch)
		if core == e.Core {
			core.Limited(e.World.Now, batch, applied)
		}
	})
}

// launch starts Steps: each takes effect and reports after the time it takes.
func (e *Engine) launch(steps []model.Step) {
	for _, s := range steps {
		var v Verdict
		if e.OnStep != nil {
			v = e.OnStep(s)
		}
		if v.Lose {
			continue
		}
		core := e.Core
		e.At(e.World.Now.Add(e.World.Begin(s)+v.Extra), func() {
			err := v.Result
			if err == nil {
				err = e.World.Apply(s)
			}
			if core == e.Core && core != nil { // else the daemon that asked for it is dead
				e.launch(core.Finish(e.World.Now, s.ID, err))
			}
		})
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

// Kill ends the daemon: Steps under way still take effect (libvirt and the guest go on
// by themselves), but nobody hears of it.
func (e *Engine) Kill() {
	e.Core = nil
	e.World.ProcessDied()
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

// Left lists the Moves that were not ended.
func (j *Journal) Left() []model.Move { return append([]model.Move(nil), j.open...) }
