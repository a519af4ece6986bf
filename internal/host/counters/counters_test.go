package counters

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/model"
)

func newReader(t testing.TB, h *testHost) *Reader {
	t.Helper()
	r, err := h.NewCounterReader()
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestCounterReaderAgreesWithLinks compares Reader with Links while taps transfer frames, appear and vanish.
func TestCounterReaderAgreesWithLinks(t *testing.T) {
	kerneltest.NoLeaks(t)
	h := newHost(t)
	r := newReader(t, h)
	kerneltest.NewBridge(t, "br0")
	var buf []netdev.LinkStats
	for i := range 5 {
		p := kerneltest.NewPort(t, fmt.Sprintf("tap%d", i), "br0")
		p.Send(t, kerneltest.Frame(kerneltest.Broadcast, kerneltest.Guest, "counted"))
		var err error
		buf, err = r.Links(kerneltest.Soon(t), buf[:0])
		kerneltest.Must(t, err)
		links, err := h.Links(kerneltest.Soon(t))
		kerneltest.Must(t, err)
		var want []netdev.LinkStats
		for _, l := range links {
			want = append(want, netdev.LinkStats{Index: l.Index, Counters: l.Counters})
		}
		if diff := cmp.Diff(want, buf); diff != "" {
			t.Fatalf("with %d taps (-want +got): %s", i+1, diff)
		}
		if i%2 == 1 {
			kerneltest.Must(t, p.Close())
		}
	}
}

// TestCounterReaderOfAPF checks that a PF without VFs has no VF counters, and that a missing PF is an error that does not affect
// later calls.
func TestCounterReaderOfAPF(t *testing.T) {
	h := newHost(t)
	r := newReader(t, h)
	kerneltest.NewPort(t, "pf0", "")
	l, err := h.Link(kerneltest.Soon(t), "pf0")
	kerneltest.Must(t, err)
	for range 2 {
		if vfs, err := r.VFs(kerneltest.Soon(t), "nosuch", 99, nil); !errors.Is(err, model.ErrGone) || len(vfs) != 0 {
			t.Errorf("VFs of a PF that is gone: %v, %v; want model.ErrGone", vfs, err)
		}
		if vfs, err := r.VFs(kerneltest.Soon(t), "pf0", l.Index, nil); err != nil || len(vfs) != 0 {
			t.Errorf("VFs: %v, %v; want none", vfs, err)
		}
		if _, err := r.Port(kerneltest.Soon(t), "pf0", l.Index); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("port of a tap: %v, want errors.ErrUnsupported", err)
		}
		links, err := r.Links(kerneltest.Soon(t), nil)
		if err != nil || len(links) == 0 {
			t.Errorf("links: %v, %v", links, err)
		}
	}
}

// TestCounterReaderKeepsDeadlines simulates a kernel that does not answer: callers must return in time, and later calls must not
// get the late answer.
func TestCounterReaderKeepsDeadlines(t *testing.T) {
	kerneltest.NoLeaks(t)
	h := newHost(t)
	r := newReader(t, h)
	stuck := make(chan struct{})
	onLink := r.onLink
	first := true
	r.onLink = func(m rtnl.Message) {
		if first {
			first = false
			<-stuck
		}
		onLink(m)
	}
	for range 2 { // the stuck call, and one behind it
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := r.Links(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stuck: %v, want DeadlineExceeded", err)
		}
		cancel()
	}
	close(stuck)
	links, err := r.Links(kerneltest.Soon(t), nil)
	if err != nil || len(links) != 1 {
		t.Errorf("afterwards: %v, %v; want lo once", links, err)
	}
}

func TestCounterReaderClosed(t *testing.T) {
	kerneltest.NoLeaks(t)
	r := newReader(t, newHost(t))
	for range 2 {
		kerneltest.Must(t, r.Close())
	}
	if _, err := r.Links(kerneltest.Soon(t), nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v, want os.ErrClosed", err)
	}
}

// TestCounterReaderAllocatesNothing checks that there are no allocations once the buffers have grown.
func TestCounterReaderAllocatesNothing(t *testing.T) {
	h := newHost(t)
	for i := range 10 {
		kerneltest.NewPort(t, fmt.Sprintf("tap%d", i), "")
	}
	r := newReader(t, h)
	var buf []netdev.LinkStats
	allocs := testing.AllocsPerRun(100, func() {
		var err error
		if buf, err = r.Links(t.Context(), buf[:0]); err != nil {
			t.Fatal(err)
		}
	})
	if allocs >= 1 {
		t.Errorf("%v allocations per call, want none", allocs)
	}
}

// BenchmarkCounters reads the counters of 100 taps: "links" like the inventory, "reader" like users of counters only.
func BenchmarkCounters(b *testing.B) {
	h := newHost(b)
	kerneltest.NewBridge(b, "br0")
	for i := range 100 {
		kerneltest.NewPort(b, fmt.Sprintf("tap%d", i), "br0")
	}
	b.Run("links", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if links, err := h.Links(b.Context()); err != nil || len(links) < 101 {
				b.Fatal(len(links), err)
			}
		}
	})
	b.Run("reader", func(b *testing.B) {
		r := newReader(b, h)
		var buf []netdev.LinkStats
		b.ReportAllocs()
		for b.Loop() {
			var err error
			if buf, err = r.Links(b.Context(), buf[:0]); err != nil || len(buf) < 101 {
				b.Fatal(len(buf), err)
			}
		}
	})
}
