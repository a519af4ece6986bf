package kernel

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/internal/kernel/kerneltest"
	"sluice/internal/model"
)

var window = Window{MAC: guest, Tap: "tap0", PF: "pf0"}

func openQuietly(t *testing.T, h *Host, w Window) {
	t.Helper()
	note, err := h.OpenWindow(soon(t), w)
	if err != nil || note != "" {
		t.Fatalf("open window: note %q, error %v", note, err)
	}
}

// sentOnly shows that nothing but want left a port: the marker that is flooded next comes
// right behind it.
func (l lan) sentOnly(t *testing.T, from *kerneltest.Port, want map[*kerneltest.Port][]byte) {
	t.Helper()
	marker := kerneltest.Frame(stray, other, "marker")
	from.Send(t, marker)
	for _, p := range []*kerneltest.Port{l.pf, l.tap, l.peer} {
		if f := want[p]; f != nil {
			p.Expect(t, f)
		}
		if p != from {
			p.Expect(t, marker)
		}
	}
}

func TestWindowReachesBothPaths(t *testing.T) {
	h, l := newHost(t), newLAN(t)
	for range 2 { // opening twice mirrors once
		openQuietly(t, h, window)
	}
	fromPeer := kerneltest.Frame(guest, other, "from the bridge")
	l.peer.Send(t, fromPeer)
	l.sentOnly(t, l.peer, map[*kerneltest.Port][]byte{l.tap: fromPeer, l.pf: fromPeer})

	fromWire := kerneltest.Frame(guest, other, "from the wire")
	l.pf.Send(t, fromWire)
	l.sentOnly(t, l.peer, map[*kerneltest.Port][]byte{l.tap: fromWire})

	broadcast := kerneltest.Frame(bcast, other, "to all")
	l.peer.Send(t, broadcast)
	l.sentOnly(t, l.peer, map[*kerneltest.Port][]byte{l.tap: broadcast, l.pf: broadcast})

	byHost := kerneltest.Frame(guest, stray, "by the host itself")
	br, err := h.Link(soon(t), "br0")
	must(t, err)
	must(t, sendFrame(br.Index, byHost))
	l.sentOnly(t, l.peer, map[*kerneltest.Port][]byte{l.tap: byHost, l.pf: byHost})
}

func TestClosedWindowMirrorsNothing(t *testing.T) {
	h, l := newHost(t), newLAN(t)
	openQuietly(t, h, window)
	for range 2 {
		must(t, h.CloseWindow(soon(t), window))
	}
	f := kerneltest.Frame(guest, other, "to the tap only")
	l.peer.Send(t, f)
	l.sentOnly(t, l.peer, map[*kerneltest.Port][]byte{l.tap: f})
	if pins, err := h.FDB(soon(t)); err != nil || pins[guest] != "tap0" {
		t.Errorf("the bridge entry is at %v, %v; closing must not touch it", pins, err)
	}
}

func TestWindowLeavesSelfAlone(t *testing.T) {
	h := newHost(t)
	newLAN(t)
	openQuietly(t, h, window)
	if selfs, err := h.Selfs(soon(t), "pf0"); err != nil || len(selfs) != 0 {
		t.Errorf("filters of the PF: %v, %v; want none made", selfs, err)
	}
	must(t, h.AddSelf(soon(t), "pf0", guest))
	must(t, h.CloseWindow(soon(t), window))
	if selfs, err := h.Selfs(soon(t), "pf0"); err != nil || len(selfs) != 1 {
		t.Errorf("filters of the PF: %v, %v; want the guest's kept", selfs, err)
	}
}

// TestMirrorEndsWithItsProcess closes the only descriptor of the link, as the kernel does
// when the process dies, and nothing else.
func TestMirrorEndsWithItsProcess(t *testing.T) {
	h, l := newHost(t), newLAN(t)
	openQuietly(t, h, window)
	for _, open := range h.windows.byKey {
		must(t, open.Close())
	}
	f := kerneltest.Frame(guest, other, "to the tap only")
	l.peer.Send(t, f)
	l.sentOnly(t, l.peer, map[*kerneltest.Port][]byte{l.tap: f})
	h.windows.byKey = map[windowKey]openWindow{}
	must(t, newHost(t).CloseWindow(soon(t), window)) // the next process finds nothing to close
}

func TestHostCloseEndsMirrors(t *testing.T) {
	l := newLAN(t)
	h, err := New(Options{})
	must(t, err)
	openQuietly(t, h, window)
	must(t, h.Close())
	f := kerneltest.Frame(guest, other, "to the tap only")
	l.peer.Send(t, f)
	l.sentOnly(t, l.peer, map[*kerneltest.Port][]byte{l.tap: f})
}

// fakeMirror counts how often it was closed.
type fakeMirror struct {
	closed int
	err    error
}

// Close implements io.Closer.
func (f *fakeMirror) Close() error { f.closed++; return f.err }

// TestHostClosesWhileAMirrorStarts must not leave that one running.
func TestHostClosesWhileAMirrorStarts(t *testing.T) {
	w, f := newWindows(), &fakeMirror{}
	w.start = func(mirror) (io.Closer, error) { return f, w.closeAll() }
	if err := w.open(window.key(), mirror{}); !errors.Is(err, errHostClosed) || f.closed != 1 {
		t.Errorf("error %v, closed %d times; want errHostClosed and once", err, f.closed)
	}
}

// TestStuckMirror is about an attach that the kernel does not finish: the move goes on
// without, and another tap's window opens meanwhile.
func TestStuckMirror(t *testing.T) {
	noLeaks(t)
	h := newHost(t)
	newLAN(t)
	stuck := make(chan struct{})
	start := h.windows.start
	ctx, cancel := context.WithCancel(t.Context())
	h.windows.start = func(m mirror) (io.Closer, error) {
		if m.mac == guest {
			cancel()
			<-stuck
		}
		return start(m)
	}
	note, err := h.OpenWindow(ctx, window)
	if err != nil || !strings.Contains(note, "reach only the tap") {
		t.Errorf("stuck: note %q, error %v", note, err)
	}
	openQuietly(t, h, Window{MAC: other, Tap: "tap1", PF: "pf0"})
	close(stuck)
	must(t, h.CloseWindow(soon(t), window)) // after the stuck one
	if len(h.windows.byKey) != 1 {
		t.Errorf("windows left: %v", h.windows.byKey)
	}
}

// TestWindowOfTapThatCameBack is about a guest that was stopped and started under an open
// window: opening it again attaches to the new tap.
func TestWindowOfTapThatCameBack(t *testing.T) {
	h, l := newHost(t), newLAN(t)
	openQuietly(t, h, window)
	must(t, l.tap.Close())
	_, err := h.OpenWindow(soon(t), window)
	if !errors.Is(err, model.ErrGone) {
		t.Errorf("window to a tap that is gone: %v, want model.ErrGone", err)
	}
	l.tap = kerneltest.NewPort(t, "tap0", "br0")
	openQuietly(t, h, window)
	f := kerneltest.Frame(guest, other, "to both")
	l.peer.Send(t, f)
	l.sentOnly(t, l.peer, map[*kerneltest.Port][]byte{l.tap: f, l.pf: f})
	must(t, h.CloseWindow(soon(t), window))
}

func TestWindowMovesToAnotherPF(t *testing.T) {
	h, l := newHost(t), newLAN(t)
	openQuietly(t, h, window)
	w := window
	w.PF = "tap1"
	openQuietly(t, h, w)
	f := kerneltest.Frame(guest, other, "from the old PF")
	l.pf.Send(t, f)
	l.sentOnly(t, l.pf, map[*kerneltest.Port][]byte{l.tap: f, l.peer: f})
}

// TestWindowTagsCopies is about a VF with a VLAN: its filter wants the tag that the tap's
// frames do not have.
func TestWindowTagsCopies(t *testing.T) {
	h, l := newHost(t), newLAN(t)
	w := window
	w.VLAN = 100
	openQuietly(t, h, w)
	f := kerneltest.Frame(guest, other, "tagged on the wire")
	tagged := append(append(append([]byte{}, f[:12]...), 0x81, 0, 0, 100), f[12:]...)
	for range 2 {
		l.peer.Send(t, f)
		l.sentOnly(t, l.peer, map[*kerneltest.Port][]byte{l.tap: f, l.pf: tagged})
	}
	// A frame that has a tag already is copied as it is.
	l.peer.Send(t, tagged)
	l.sentOnly(t, l.peer, map[*kerneltest.Port][]byte{l.tap: tagged, l.pf: tagged})
}

// TestWindowWithoutHelp shows that what cannot be had is told, and the rest works.
func TestWindowWithoutHelp(t *testing.T) {
	h, l := newHost(t), newLAN(t)
	h.windows.start = func(mirror) (io.Closer, error) { return nil, ebpf.ErrNotSupported }
	note, err := h.OpenWindow(soon(t), window)
	if err != nil || !strings.Contains(note, "reach only the tap") {
		t.Errorf("kernel without TCX: note %q, error %v", note, err)
	}
	if pins, err := h.FDB(soon(t)); err != nil || pins[guest] != "tap0" {
		t.Errorf("pins %v, %v; want the guest at tap0", pins, err)
	}
	f := kerneltest.Frame(guest, other, "to the tap")
	l.peer.Send(t, f)
	l.tap.Expect(t, f)
	must(t, h.CloseWindow(soon(t), window))
}

func TestWindowNeedsTheBridge(t *testing.T) {
	h := newHost(t)
	newLAN(t)
	kerneltest.IP(t, "link set tap0 nomaster")
	if _, err := h.OpenWindow(soon(t), window); !errors.Is(err, errNotPort) {
		t.Errorf("tap without bridge: %v, want an error", err)
	}
}

func TestMirrorProgramOfBadIndex(t *testing.T) {
	if _, err := (mirror{tap: 1 << 30, pf: 1, mac: guest}).start(); !errors.Is(err, unix.ENODEV) {
		t.Errorf("mirror of no interface: %v, want ENODEV", err)
	}
}

// TestWindowOpen tells an open window from a closed one, by MAC.
func TestWindowOpen(t *testing.T) {
	h := newHost(t)
	f := &fakeMirror{err: errors.New("no")}
	h.windows.start = func(mirror) (io.Closer, error) { return f, nil }
	must(t, h.windows.open(window.key(), mirror{}))
	if !h.WindowOpen(guest) || h.WindowOpen(other) {
		t.Errorf("open for the guest %v, for another %v", h.WindowOpen(guest), h.WindowOpen(other))
	}
	if err := h.windows.close(window.key()); !errors.Is(err, f.err) || !h.WindowOpen(guest) {
		t.Errorf("close that fails: %v, open %v", err, h.WindowOpen(guest))
	}
	f.err = nil
	must(t, h.windows.close(window.key()))
	if h.WindowOpen(guest) {
		t.Error("still open after close")
	}
}
