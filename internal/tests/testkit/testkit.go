// Package testkit holds what tests of several packages need. Its deadlines follow the speed
// that the machine has at the moment, so that a test does not fail for being slow, and
// a test that hangs ends all the same. Only tests import it.
package testkit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The fixed piece of work, and the wall-clock time that it takes on a machine of 2020 which
// has nothing else to do. It is longer than a time slice of the scheduler: shorter work would
// not feel that others want the processor too.
const (
	work    = 20_000_000 // rounds of xorshift
	quiet   = 30 * time.Millisecond
	most    = 10.0             // the slowest machine that is waited for
	goodFor = 10 * time.Second // then the load may be another
)

var speed struct {
	sync.Mutex
	slow     float64
	measured time.Time
}

// Slowness is how many times as long as on a quiet machine things take here and now, from
// 1 to 10.
func Slowness() float64 {
	speed.Lock()
	defer speed.Unlock()
	if speed.slow == 0 || time.Since(speed.measured) > goodFor {
		speed.slow = slowness(measure())
		speed.measured = time.Now()
	}
	return speed.slow
}

// sink keeps the compiler from leaving the work out.
var sink atomic.Uint64

// measure does the work: registers only, so that neither caches nor special instructions of
// the processor count.
func measure() time.Duration {
	begin := time.Now()
	x := uint64(begin.UnixNano()) | 1
	for range work {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	sink.Store(x)
	return time.Since(begin)
}

func slowness(took time.Duration) float64 {
	return min(most, max(1, took.Seconds()/quiet.Seconds()))
}

// Time is what takes d on a quiet machine, with as much to spare: a deadline for what is
// expected, and a timeout for what is tested in the real world.
func Time(d time.Duration) time.Duration {
	return time.Duration(2 * Slowness() * float64(d))
}

// Eventually waits until ok, and fails the test if that takes more than Time(d). What
// says for what it waits.
func Eventually(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	begin := time.Now()
	for limit := Time(d); !ok(); time.Sleep(5 * time.Millisecond) {
		if took := time.Since(begin); took > limit {
			if later := Time(d); later > limit { // the load has come since
				limit = later
				continue
			}
			t.Fatalf("not within %s: %s", took.Round(time.Millisecond), what)
		}
	}
}
