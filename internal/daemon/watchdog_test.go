package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The longest sample that the config takes leaves systemd's minute in peace; a loop that is
// stuck, or a look that never ends, does not.
func TestWatchdog(t *testing.T) {
	const period = time.Minute
	for _, c := range []struct {
		name     string
		sample   time.Duration
		looks    bool // looks end
		loop     bool // the loop takes calls
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
