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

// asker polls one guest for its counters in a goroutine of its own. It does not evaluate the answers: the next Snapshot does.
type asker struct {
	vm     model.VMID
	cancel context.CancelFunc // nil: not started

	wanted bool // by the last Snapshot

	mu    sync.Mutex
	taps  map[model.MAC]sample // the host's latest counters of the VM's taps
	got   *answer              // the latest
	asked map[model.MAC]sample // the tap counters when the question behind got was asked
	fails int                  // consecutive answers that were missing or not believed
}

// run polls until ctx ends. It pauses in two parts: during the first, AskEvery, a Snapshot judges the answer, which decides whether
// the pause must be longer.
func (a *asker) run(ctx context.Context, g Guests, o Options) {
	for ctx.Err() == nil {
		a.ask(ctx, g, o.within(a.vm))
		_ = sleep.For(ctx, o.AskEvery)
		_ = sleep.For(ctx, a.pause(o)-o.AskEvery)
	}
}

// ask polls once.
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

// pause returns the time from one question to the next. It doubles with every failure.
func (a *asker) pause(o Options) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return reconcile.Backoff{First: o.AskEvery, Most: o.AskPause}.After(1 + a.fails)
}

// since returns the answer if it came after t, with the host's counters of tap from when the question was asked.
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

// verdict counts an answer that is not believed as a failure; a good one resets the count.
func (a *asker) verdict(ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ok {
		a.fails = 0
	} else {
		a.fails++
	}
}

// tap records the host's counters of a tap.
func (a *asker) tap(mac model.MAC, s sample) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taps[mac] = s
}

// askers holds the guests being polled.
type askers struct {
	guests Guests
	opt    Options
	ctx    context.Context // ends with the Source
	wg     sync.WaitGroup
	byVM   map[model.VMID]*asker
}

// of returns the asker of a VM and marks it as wanted. settle starts it if it is new.
func (as *askers) of(vm model.VMID) *asker {
	a := as.byVM[vm]
	if a == nil {
		a = &asker{vm: vm, taps: map[model.MAC]sample{}}
		as.byVM[vm] = a
	}
	a.wanted = true
	return a
}

// settle starts new askers and stops those that were not requested since the last call. A question in flight ends by itself.
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
