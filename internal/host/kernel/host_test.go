package kernel

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/sysif"
)

// TestHostStaysInTheNamespaceItWasMadeIn makes a Host in a thread with a network namespace
// of its own and uses all of its sockets from others, after refusals too.
func TestHostStaysInTheNamespaceItWasMadeIn(t *testing.T) {
	kerneltest.NewPort(t, "tap0", "")
	made := make(chan error)
	var h *Host
	go func() {
		runtime.LockOSThread() // and never unlocks it: the thread ends
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			h, err = New(Options{})
		}
		made <- err
	}()
	kerneltest.Must(t, <-made)
	defer h.Close()
	var all sync.WaitGroup
	for range 4 * sysif.Readers {
		all.Go(func() {
			if _, err := h.Link(t.Context(), "tap0"); !errors.Is(err, unix.ENODEV) {
				t.Errorf("tap0 of another namespace: %v, want ENODEV", err)
			}
			if l, err := h.Link(t.Context(), "lo"); err != nil || l.Name != "lo" {
				t.Errorf("lo: %+v, %v", l, err)
			}
		})
	}
	all.Wait()
}
