package daemon

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// watchdog tells systemd that the daemon is alive, at a pace that has nothing to do with how
// often it looks at the host: as long as the loop takes calls, and looks at the host end.
type watchdog struct {
	call func(ctx context.Context, f func(now time.Time)) error // runs f in the loop
	ping func()
	most time.Duration // that a look may take, with the wait before it

	looked atomic.Pointer[time.Time] // when the last look ended, good or bad; with the monotonic clock, since the other may be set
}

// looks returns how long it may take from the end of one look to that of the next, as
// runner.Placement bounds it, with room for a busy machine.
func looks(sample time.Duration) time.Duration {
	return sample + max(10*sample, 10*time.Second) + 30*time.Second
}

// seen notes the end of a look. A long absence of libvirt must not get the daemon killed.
func (w *watchdog) seen() {
	now := time.Now()
	w.looked.Store(&now)
}

// run pings three times in each period until ctx ends; 0 is no watchdog.
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

// check pings if the loop takes a call within the time given and is not stuck in a look.
func (w *watchdog) check(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_ = w.call(ctx, func(now time.Time) { // an error leaves systemd without a ping, as it should
		if now.Sub(*w.looked.Load()) <= w.most {
			w.ping()
		}
	})
}

// watchdogPeriod is what systemd allows between two pings, 0: it does not watch.
func watchdogPeriod() time.Duration {
	d, _ := daemon.SdWatchdogEnabled(false)
	return d
}

func pingSystemd() { _, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog) }
