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

// TestHostStaysInTheNamespaceItWasMadeIn creates a Host on a thread with its own network namespace and uses all of its sockets
// from other threads, also after refused requests.
func TestHostStaysInTheNamespaceItWasMadeIn(t *testing.T) {
	kerneltest.NewPort(t, "tap0", "")
	made := make(chan error)
	var h *Host
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
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
