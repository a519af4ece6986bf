package bridge

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// heard waits for a notification from Watch.
func heard(t *testing.T, changed <-chan struct{}, what string) {
	t.Helper()
	select {
	case _, open := <-changed:
		if !open {
			t.Fatal("channel closed, waiting for", what)
		}
	case <-time.After(time.Minute):
		t.Fatal("not told of", what)
	}
}

func TestWatch(t *testing.T) {
	kerneltest.NoLeaks(t)
	h := newHost(t)
	kerneltest.NewLAN(t)
	ctx, cancel := context.WithCancel(t.Context())
	changed, err := h.Watch(ctx)
	kerneltest.Must(t, err)

	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "tap0"))
	heard(t, changed, "a pin")
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "pf0"))
	heard(t, changed, "a pin that moved")
	kerneltest.Must(t, h.UnpinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "pf0"))
	heard(t, changed, "a pin that went")
	kerneltest.Must(t, h.AddSelf(kerneltest.Soon(t), "pf0", kerneltest.Guest))
	heard(t, changed, "a filter")
	kerneltest.IP(t, "link set tap0 down")
	heard(t, changed, "a link that went down")

	cancel()
	for range changed { // drains, and ends only when the channel is closed
	}
}

// TestWatchCoalesces makes many changes while nobody reads.
func TestWatchCoalesces(t *testing.T) {
	kerneltest.NoLeaks(t)
	h := newHost(t)
	kerneltest.NewLAN(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed, err := h.Watch(ctx)
	kerneltest.Must(t, err)
	for range 50 {
		kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "tap0"))
		kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "pf0"))
	}
	heard(t, changed, "many changes")
	if n := len(changed); n > 1 {
		t.Errorf("%d messages are waiting, want one at most", n)
	}
	cancel()
	for range changed {
	}
}

// TestWatchAfterLoss overflows the socket with irrelevant notifications: since relevant ones may be among those lost, the loss
// must be reported, and later changes too.
func TestWatchAfterLoss(t *testing.T) {
	kerneltest.NoLeaks(t)
	h := newHost(t)
	lan := kerneltest.NewLAN(t)
	l, err := subscribe()
	kerneltest.Must(t, err)
	kerneltest.Must(t, l.SetBuffer(1))
	for i := range byte(50) { // the bridge learns them while nobody reads
		lan.Peer.Send(t, kerneltest.Frame(kerneltest.Guest, model.MAC{2, 0, 0, 0, 0, i}, "learn me"))
	}
	w := watcher{changed: make(chan struct{}, 1), log: h.k.Log}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.run(ctx, l) }()
	heard(t, w.changed, "lost notifications")
	kerneltest.WaitFor(t, "silence", func() bool {
		select {
		case <-w.changed:
			return false
		default:
			return true
		}
	})
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Other, 0, "tap0"))
	heard(t, w.changed, "a change after the loss")
	cancel()
	<-ended
}

// TestWatchSubscribesAgain closes the watcher's socket.
func TestWatchSubscribesAgain(t *testing.T) {
	kerneltest.NoLeaks(t)
	h := newHost(t)
	kerneltest.NewLAN(t)
	l, err := subscribe()
	kerneltest.Must(t, err)
	w := watcher{changed: make(chan struct{}, 1), log: h.k.Log}
	ctx, cancel := context.WithCancel(t.Context())
	go w.run(ctx, l)
	kerneltest.Must(t, l.Close())
	heard(t, w.changed, "the gap")
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "tap0"))
	heard(t, w.changed, "a change after subscribing again")
	cancel()
	for range w.changed {
	}
}

func TestRelevant(t *testing.T) {
	neigh := func(family uint8, state uint16, flags uint8) rtnl.Message {
		r := rtnl.NewRequest(unix.RTM_NEWNEIGH, 0, rtnl.Neigh(family, 3, state, flags))
		r.Bytes(unix.NDA_LLADDR, kerneltest.Guest[:])
		if flags&unix.NTF_SELF == 0 {
			r.U32(unix.NDA_MASTER, 2)
		}
		return r.Message()
	}
	link := rtnl.NewRequest(unix.RTM_DELLINK, 0, rtnl.Link(unix.AF_UNSPEC, 3)).Message()
	for name, c := range map[string]struct {
		m    rtnl.Message
		want bool
	}{
		"link gone":      {link, true},
		"static entry":   {neigh(unix.AF_BRIDGE, unix.NUD_NOARP, 0), true},
		"filter":         {neigh(unix.AF_BRIDGE, unix.NUD_PERMANENT, unix.NTF_SELF), true},
		"learned entry":  {neigh(unix.AF_BRIDGE, unix.NUD_REACHABLE, 0), false},
		"port's address": {neigh(unix.AF_BRIDGE, unix.NUD_PERMANENT, 0), false},
		"ARP":            {neigh(unix.AF_INET, unix.NUD_NOARP, 0), false},
		"nothing":        {rtnl.Message{}, false},
	} {
		if got := relevant(c.m); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
