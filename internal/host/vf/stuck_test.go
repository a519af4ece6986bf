package vf

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// TestStuckUnbind simulates a kernel that waits for a user of the VF: the caller must return at its deadline, a second call for
// the same VF must wait, and a call for another VF must not.
func TestStuckUnbind(t *testing.T) {
	kerneltest.NoLeaks(t)
	m := pciKernel()
	stuck, entered := make(chan struct{}), make(chan struct{}, 2)
	m.OnWrite = func(path, data string) error {
		entered <- struct{}{}
		<-stuck
		return react(m, path, data)
	}
	h := &Functions{k: &sysif.Kernel{Sys: m.Tree(), Busy: sysif.NewLocks()}}
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
	if err := h.BindVFIO(kerneltest.Soon(t), "0000:01:10.2"); !errors.Is(err, model.ErrGone) {
		t.Errorf("call for another VF: %v, want model.ErrGone at once", err)
	}
	go func() {
		for range entered { // let all further writes pass
		}
	}()
	close(stuck)
	if err := h.BindVFIO(kerneltest.Soon(t), vfAddr); err != nil {
		t.Errorf("after the stuck call ended: %v", err)
	}
	close(entered)
}
