package sysif

import (
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestExclusive(t *testing.T) {
	defer goleak.VerifyNone(t)
	l := NewLocks()
	var wg sync.WaitGroup
	n := 0 // guarded by the lock under test; for the race detector
	for range 50 {
		wg.Go(func() {
			if err := l.Exclusive(t.Context(), "x", func() error { n++; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n != 50 || len(l.held) != 0 {
		t.Errorf("%d of 50 ran, %d locks left", n, len(l.held))
	}
}
