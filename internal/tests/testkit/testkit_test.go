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

// A machine under load is measured as slower; otherwise deadlines would not adapt. Not every time, since the scheduler may let a
// measurement pass before the others, but at least every second time.
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
	const tries = 10
	var took []time.Duration
	for slow := 0; slow < tries/2; {
		if len(took) == tries {
			t.Fatalf("the work took %s, and with eight others at it for every processor %v: twice as long in %d cases", before, took, slow)
		}
		after := measure()
		took = append(took, after)
		if after >= 2*before {
			slow++
		}
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
