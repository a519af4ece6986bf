package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

// With any sample period that the config allows, the daemon pings within systemd's minute. If the loop is stuck or an observation
// never ends, it does not.
func TestWatchdog(t *testing.T) {
	const period = time.Minute
	for _, c := range []struct {
		name     string
		sample   time.Duration
		looks    bool // observations end
		loop     bool // the loop accepts calls
		killedIn time.Duration
	}{
		{"looks every second", time.Second, true, true, 0},
		{"looks every minute", time.Minute, true, true, 0},
		{"the loop is stuck", time.Second, true, false, period},
		{"a look never ends", time.Second, false, true, 2 * period},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				last, longest := time.Now(), time.Duration(0)
				ping := func() {
					longest = max(longest, time.Since(last))
					last = time.Now()
				}
				call := func(ctx context.Context, f func(time.Time)) error {
					if !c.loop {
						<-ctx.Done()
						return ctx.Err()
					}
					f(time.Now())
					return nil
				}
				w := &watchdog{call: call, ping: ping, most: looks(c.sample)}
				go w.run(ctx, period)
				start := time.Now()
				for time.Since(start) < time.Hour {
					time.Sleep(c.sample)
					if c.looks {
						w.seen()
					}
				}
				cancel()
				synctest.Wait()
				longest = max(longest, time.Since(last))
				switch {
				case c.killedIn == 0 && longest >= period:
					t.Errorf("%s without a ping: systemd kills it after %s", longest, period)
				case c.killedIn > 0 && last.Sub(start) > c.killedIn:
					t.Errorf("the last ping came after %s", last.Sub(start))
				}
			})
		})
	}
}

// Setting the clock does not kill a healthy daemon.
func TestWatchdogOutlivesTheClock(t *testing.T) {
	for _, by := range []int64{-3600, 3600} {
		pings := 0
		w := &watchdog{ping: func() { pings++ }, most: time.Minute}
		w.call = func(_ context.Context, f func(time.Time)) error { f(set(time.Now(), by)); return nil }
		w.seen()
		w.check(t.Context(), time.Second)
		if pings != 1 {
			t.Errorf("clock set by %d s: %d pings", by, pings)
		}
		late := time.Now().Add(-2 * time.Minute)
		w.looked.Store(&late)
		w.check(t.Context(), time.Second)
		if pings != 1 {
			t.Errorf("clock set by %d s: a stuck look is not noticed", by)
		}
	}
}

// set returns a time as read after the clock has been set by that many seconds: its monotonic part does not change. It relies on
// the layout of time.Time: in wall, bits 30 to 62 are seconds if there is a monotonic part.
func set(t time.Time, by int64) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(by << 30) //nolint:gosec // it may be less
	return t
}
