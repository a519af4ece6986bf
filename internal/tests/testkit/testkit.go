// Package testkit has helpers for the tests of several packages. Its deadlines scale with the current speed of the machine, so that a
// test does not fail because the machine is slow, but a hanging test still ends. Only tests import it.
package testkit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The calibration workload, and the wall-clock time that it takes on an idle machine of 2020. It takes longer than a time slice of the
// scheduler, since shorter work would not notice competing load.
const (
	work    = 20_000_000 // rounds of xorshift
	quiet   = 30 * time.Millisecond
	most    = 10.0             // the highest slowness that is allowed for
	goodFor = 10 * time.Second // how long a measurement is valid
)

var speed struct {
	sync.Mutex
	slow     float64
	measured time.Time
}

// Slowness returns how many times longer things take now than on an idle machine, from 1 to 10.
func Slowness() float64 {
	speed.Lock()
	defer speed.Unlock()
	if speed.slow == 0 || time.Since(speed.measured) > goodFor {
		speed.slow = slowness(measure())
		speed.measured = time.Now()
	}
	return speed.slow
}

// sink keeps the compiler from eliminating the workload.
var sink atomic.Uint64

// measure runs the workload. It uses only registers, so that neither caches nor special CPU instructions affect it.
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

// Time returns a deadline for what takes d on an idle machine, with a margin of 100 %. It suits both expected results and timeouts of
// code tested in real time.
func Time(d time.Duration) time.Duration {
	return time.Duration(2 * Slowness() * float64(d))
}

// Eventually waits until ok returns true, and fails the test if that takes longer than Time(d). what describes what it waits for.
func Eventually(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	begin := time.Now()
	for limit := Time(d); !ok(); time.Sleep(5 * time.Millisecond) {
		if took := time.Since(begin); took > limit {
			if later := Time(d); later > limit { // the load may have risen since
				limit = later
				continue
			}
			t.Fatalf("not within %s: %s", took.Round(time.Millisecond), what)
		}
	}
}
