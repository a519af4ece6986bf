package observe

import (
	"context"
	"maps"
	"sync"
	"time"

	"sluice/internal/base/reconcile"
	"sluice/internal/base/sleep"
	"sluice/internal/model"
)

// asker asks one guest for its counters, again and again, in a goroutine of its own. It
// makes nothing of the answers: the next Snapshot does.
type asker struct {
	vm     model.VMID
	cancel context.CancelFunc // nil: not started

	wanted bool // by the last Snapshot

	mu    sync.Mutex
	taps  map[model.MAC]sample // the host's last counters of the VM's taps
	got   *answer              // the last one
	asked map[model.MAC]sample // the taps when got was asked for
	fails int                  // answers in a row that were missing or not believed
}

// run asks until ctx ends. By the time the usual pause is over a Snapshot has judged the
// answer, and the rest of a longer pause follows.
func (a *asker) run(ctx context.Context, g Guests, o Options) {
	for ctx.Err() == nil {
		a.ask(ctx, g, o.within(a.vm))
		_ = sleep.For(ctx, o.AskEvery)
		_ = sleep.For(ctx, a.pause(o)-o.AskEvery)
	}
}

// ask asks once.
func (a *asker) ask(ctx context.Context, g Guests, within time.Duration) {
	a.mu.Lock()
	before := maps.Clone(a.taps)
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	devs, err := g.Interfaces(ctx, a.vm)

	a.mu.Lock()
	defer a.mu.Unlock()
	a.got, a.asked = &answer{at: time.Now(), devs: devs, err: err}, before
	if err != nil {
		a.fails++
	}
}

// pause is the time from one question to the next. It doubles with every failure.
func (a *asker) pause(o Options) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return reconcile.Backoff{First: o.AskEvery, Most: o.AskPause}.After(1 + a.fails)
}

// since hands out the answer if it came after that time; tap is of which the answer
// carries the counters from when it was asked for.
func (a *asker) since(t time.Time, tap model.MAC) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.got == nil || !a.got.at.After(t) {
		return answer{}, false
	}
	got := *a.got
	got.before = a.asked[tap]
	return got, true
}

// verdict counts an answer that is not believed as a failure, and forgives after a
// good one.
func (a *asker) verdict(ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ok {
		a.fails = 0
	} else {
		a.fails++
	}
}

// tap notes the host's counters of a tap.
func (a *asker) tap(mac model.MAC, s sample) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taps[mac] = s
}

// askers are the guests being asked.
type askers struct {
	guests Guests
	opt    Options
	ctx    context.Context // ends with the Source
	wg     sync.WaitGroup
	byVM   map[model.VMID]*asker
}

// of returns the asker of a VM, which start starts if it is new.
func (as *askers) of(vm model.VMID) *asker {
	a := as.byVM[vm]
	if a == nil {
		a = &asker{vm: vm, taps: map[model.MAC]sample{}}
		as.byVM[vm] = a
	}
	a.wanted = true
	return a
}

// settle starts the askers that are new and stops those that nobody called for since
// the last time. A question under way ends by itself.
func (as *askers) settle() {
	for vm, a := range as.byVM {
		switch {
		case !a.wanted && a.cancel != nil:
			a.cancel()
			delete(as.byVM, vm)
		case a.cancel == nil:
			ctx, cancel := context.WithCancel(as.ctx)
			a.cancel = cancel
			as.wg.Go(func() { a.run(ctx, as.guests, as.opt) })
		}
		a.wanted = false
	}
}
