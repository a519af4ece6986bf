package daemon

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// watchdog tells systemd that the daemon is alive, as long as the loop accepts calls and observations of the host end. Its rate
// is independent of the sampling period.
type watchdog struct {
	call func(ctx context.Context, f func(now time.Time)) error // runs f in the loop
	ping func()
	most time.Duration // maximum time for an observation, with the wait before it

	// looked is when the last observation ended, successful or not; with the monotonic clock, as the wall clock may be set.
	looked atomic.Pointer[time.Time]
}

// looks returns the maximum time from the end of one observation to that of the next, as runner.Placement bounds it, with margin
// for a busy machine.
func looks(sample time.Duration) time.Duration {
	return sample + max(10*sample, 10*time.Second) + 30*time.Second
}

// seen records the end of an observation, even a failed one: a long absence of libvirt must not get the daemon killed.
func (w *watchdog) seen() {
	now := time.Now()
	w.looked.Store(&now)
}

// run pings three times in each period until ctx ends; period 0 means no watchdog.
func (w *watchdog) run(ctx context.Context, period time.Duration) {
	if period <= 0 {
		return
	}
	w.seen()
	tick := time.NewTicker(period / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.check(ctx, period/3)
		}
	}
}

// check pings if the loop accepts a call in time and is not stuck in an observation.
func (w *watchdog) check(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_ = w.call(ctx, func(now time.Time) { // on an error systemd gets no ping, as intended
		if now.Sub(*w.looked.Load()) <= w.most {
			w.ping()
		}
	})
}

// watchdogPeriod returns the maximum time that systemd allows between two pings, 0 if it does not watch.
func watchdogPeriod() time.Duration {
	d, _ := daemon.SdWatchdogEnabled(false)
	return d
}

func pingSystemd() { _, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog) }
