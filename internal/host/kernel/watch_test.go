package kernel

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// waitFor waits for a condition that should come by itself.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for", what)
		}
	}
}

// heard waits for Watch to tell of a change.
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
	noLeaks(t)
	h := newHost(t)
	newLAN(t)
	ctx, cancel := context.WithCancel(t.Context())
	changed, err := h.Watch(ctx)
	must(t, err)

	must(t, h.PinFDB(soon(t), guest, 0, "tap0"))
	heard(t, changed, "a pin")
	must(t, h.PinFDB(soon(t), guest, 0, "pf0"))
	heard(t, changed, "a pin that moved")
	must(t, h.UnpinFDB(soon(t), guest, 0, "pf0"))
	heard(t, changed, "a pin that went")
	must(t, h.AddSelf(soon(t), "pf0", guest))
	heard(t, changed, "a filter")
	kerneltest.IP(t, "link set tap0 down")
	heard(t, changed, "a link that went down")

	cancel()
	for range changed { // drains, and ends only when the channel is closed
	}
}

// TestWatchCoalesces changes much while nobody reads.
func TestWatchCoalesces(t *testing.T) {
	noLeaks(t)
	h := newHost(t)
	newLAN(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed, err := h.Watch(ctx)
	must(t, err)
	for range 50 {
		must(t, h.PinFDB(soon(t), guest, 0, "tap0"))
		must(t, h.PinFDB(soon(t), guest, 0, "pf0"))
	}
	heard(t, changed, "many changes")
	if n := len(changed); n > 1 {
		t.Errorf("%d messages are waiting, want one at most", n)
	}
	cancel()
	for range changed {
	}
}

// TestWatchAfterLoss overflows the socket with what nobody cares for: as something else
// may be among what is lost, that must be told, and later changes too.
func TestWatchAfterLoss(t *testing.T) {
	noLeaks(t)
	h := newHost(t)
	lan := newLAN(t)
	l, err := subscribe()
	must(t, err)
	must(t, l.SetBuffer(1))
	for i := range byte(50) { // the bridge learns them, while nobody reads
		lan.peer.Send(t, kerneltest.Frame(guest, model.MAC{2, 0, 0, 0, 0, i}, "learn me"))
	}
	w := watcher{changed: make(chan struct{}, 1), log: h.log}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.run(ctx, l) }()
	heard(t, w.changed, "lost notifications")
	waitFor(t, "silence", func() bool {
		select {
		case <-w.changed:
			return false
		default:
			return true
		}
	})
	must(t, h.PinFDB(soon(t), other, 0, "tap0"))
	heard(t, w.changed, "a change after the loss")
	cancel()
	<-ended
}

// TestWatchSubscribesAgain closes the socket under the watcher.
func TestWatchSubscribesAgain(t *testing.T) {
	noLeaks(t)
	h := newHost(t)
	newLAN(t)
	l, err := subscribe()
	must(t, err)
	w := watcher{changed: make(chan struct{}, 1), log: h.log}
	ctx, cancel := context.WithCancel(t.Context())
	go w.run(ctx, l)
	must(t, l.Close())
	heard(t, w.changed, "the gap")
	must(t, h.PinFDB(soon(t), guest, 0, "tap0"))
	heard(t, w.changed, "a change after subscribing again")
	cancel()
	for range w.changed {
	}
}

func TestRelevant(t *testing.T) {
	neigh := func(family uint8, state uint16, flags uint8) rtnl.Message {
		r := rtnl.NewRequest(unix.RTM_NEWNEIGH, 0, rtnl.Neigh(family, 3, state, flags))
		r.Bytes(unix.NDA_LLADDR, guest[:])
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
