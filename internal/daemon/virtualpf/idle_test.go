package virtualpf

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/control/vpf"
)

// TestIdleHostIsObservedLess counts observations: few without a virtual PF, one a second as soon as one is defined.
func TestIdleHostIsObservedLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.stop()
		var looks atomic.Int64
		r.Runner.Look = func(ctx context.Context, _ bool) (vpf.World, error) {
			looks.Add(1)
			return r.host.look(ctx)
		}
		r.work()
		during := func(d time.Duration) int64 {
			looks.Store(0)
			time.Sleep(d)
			synctest.Wait()
			return looks.Load()
		}
		if n := during(time.Minute); n < 10 || n > 14 {
			t.Errorf("%d observations of an idle host in a minute, want one in 5 s", n)
		}
		r.define("a", 1)
		if n := during(time.Minute); n < 59 {
			t.Errorf("%d observations in a minute with a virtual PF, want one a second", n)
		}
	})
}
