package testkit

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestSlowness(t *testing.T) {
	for took, want := range map[time.Duration]float64{time.Millisecond: 1, quiet: 1, 5 * quiet: 5, time.Hour: most} {
		if got := slowness(took); got != want {
			t.Errorf("%s: %v, want %v", took, got, want)
		}
	}
}

// A machine under load is measured as slower; otherwise deadlines would not adapt. Not every time: the scheduler may let one measurement
// pass before the others.
func TestLoadShows(t *testing.T) {
	before := measure()
	for range 4 {
		before = min(before, measure())
	}
	var stop atomic.Bool
	defer stop.Store(true)
	for range 8 * runtime.GOMAXPROCS(0) {
		go func() {
			for !stop.Load() {
				continue // only keeps a CPU busy
			}
		}()
	}
	after := measure()
	for n := 1; n < 10 && after < 2*before; n++ {
		after = max(after, measure())
	}
	if after < 2*before {
		t.Errorf("the work took %s, and at most %s with eight others at it for every processor", before, after)
	}
}

type fake struct {
	testing.TB
	failed string
}

func (f *fake) Helper() {}
func (f *fake) Fatalf(format string, args ...any) {
	f.failed = fmt.Sprintf(format, args...)
	panic(f)
}

func TestEventually(t *testing.T) {
	n := 0
	Eventually(t, time.Second, "three calls", func() bool { n++; return n == 3 })
	f := &fake{TB: t}
	func() {
		defer func() { _ = recover() }()
		Eventually(f, time.Millisecond, "what never comes", func() bool { return false })
	}()
	if !strings.Contains(f.failed, "what never comes") {
		t.Errorf("failed with %q", f.failed)
	}
}
