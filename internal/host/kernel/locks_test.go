package kernel

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"sluice/internal/model"
)

// TestStuckUnbind is about a kernel that waits for a user of the VF: the caller leaves at
// its deadline, a second call for the same VF waits its turn, another VF's does not.
func TestStuckUnbind(t *testing.T) {
	noLeaks(t)
	m := pciKernel()
	stuck, entered := make(chan struct{}), make(chan struct{}, 2)
	m.onWrite = func(path, data string) error {
		entered <- struct{}{}
		<-stuck
		return m.react(path, data)
	}
	h := &Host{sys: m.tree(), busy: newLocks()}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	if err := h.BindVFIO(ctx, vfAddr); !errors.Is(err, context.Canceled) {
		t.Errorf("stuck call: %v, want context.Canceled", err)
	}
	brief, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if err := h.BindVFIO(brief, vfAddr); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second call: %v, want DeadlineExceeded", err)
	}
	if err := h.BindVFIO(soon(t), "0000:01:10.2"); !errors.Is(err, model.ErrGone) {
		t.Errorf("call for another VF: %v, want model.ErrGone at once", err)
	}
	go func() {
		for range entered { // let all further writes pass
		}
	}()
	close(stuck)
	if err := h.BindVFIO(soon(t), vfAddr); err != nil {
		t.Errorf("after the stuck call ended: %v", err)
	}
	close(entered)
}

func TestExclusive(t *testing.T) {
	noLeaks(t)
	l := newLocks()
	var wg sync.WaitGroup
	n := 0 // guarded by the lock under test; the race detector watches
	for range 50 {
		wg.Go(func() {
			if err := l.exclusive(soon(t), "x", func() error { n++; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n != 50 || len(l.held) != 0 {
		t.Errorf("%d of 50 ran, %d locks left", n, len(l.held))
	}
}
