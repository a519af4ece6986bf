package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"sluice/internal/model"
)

// Window is a time in which both paths to a guest receive its inbound frames. The guest's
// failover or bond drops what comes on the inactive leg.
type Window struct {
	MAC  model.MAC
	Tap  string
	PF   string
	VLAN int // the VF's VLAN, 0: none
}

// OpenWindow makes both paths receive what comes from the bridge: the bridge entry to the
// tap, and a mirror from the tap to the PF for frames that did not come from there. Those
// from the wire and from VFs take AddSelf: a virtio guest needs that without a window too.
// The bridge entry must succeed; that there is no mirror is told in note. Opening an
// open window checks and mends it. The mirror ends with CloseWindow, Close, or the
// process.
func (h *Host) OpenWindow(ctx context.Context, w Window) (note string, err error) {
	tap, err := h.Link(ctx, w.Tap)
	if err != nil {
		return "", err
	}
	pf, err := h.Link(ctx, w.PF)
	if err != nil {
		return "", err
	}
	if err := h.PinFDB(ctx, w.MAC, w.VLAN, w.Tap); err != nil {
		return "", err
	}
	m := mirror{tap: tap.Index, pf: pf.Index, mac: w.MAC, vlan: w.VLAN}
	err = h.busy.exclusive(ctx, "mirror "+w.Tap, func() error { return h.windows.open(w.key(), m) })
	if err != nil {
		note = fmt.Sprintf("frames from the bridge reach only the tap: mirror %s to %s: %v", w.Tap, w.PF, err)
	}
	return note, nil
}

// WindowOpen says whether a window that this Host opened for the MAC is open still.
func (h *Host) WindowOpen(mac model.MAC) bool { return h.windows.has(mac) }

// CloseWindow removes the mirror. The bridge entry stays where it is.
func (h *Host) CloseWindow(ctx context.Context, w Window) error {
	err := h.busy.exclusive(ctx, "mirror "+w.Tap, func() error { return h.windows.close(w.key()) })
	return fail("close mirror from", w.Tap, err)
}

func (w Window) key() windowKey { return windowKey{w.Tap, w.MAC} }

type windowKey struct {
	tap string
	mac model.MAC
}

// windows are the mirrors of the open windows. open and close of one tap come one after
// the other (see locks); they attach and detach without holding up others.
type windows struct {
	start func(mirror) (io.Closer, error)

	mu     sync.Mutex
	byKey  map[windowKey]openWindow
	closed bool
}

type openWindow struct {
	mirror
	io.Closer
}

func newWindows() *windows {
	return &windows{start: mirror.start, byKey: map[windowKey]openWindow{}}
}

var errHostClosed = errors.New("closed")

// open starts a mirror, unless the same one runs already. One that differs is replaced; so
// is that to a tap which went away and came back, since it has another index then.
func (w *windows) open(key windowKey, m mirror) error {
	w.mu.Lock()
	have, ok := w.byKey[key]
	w.mu.Unlock()
	if ok && have.mirror == m {
		return nil
	}
	r, err := w.start(m)
	if err != nil {
		return err
	}
	if !w.keep(key, openWindow{m, r}) {
		return errors.Join(errHostClosed, r.Close())
	}
	if ok {
		return have.Close()
	}
	return nil
}

// keep remembers a mirror, unless all were closed meanwhile.
func (w *windows) keep(key windowKey, o openWindow) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.byKey[key] = o
	}
	return !w.closed
}

// has says whether a mirror runs for the MAC.
func (w *windows) has(mac model.MAC) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.byKey {
		if key.mac == mac {
			return true
		}
	}
	return false
}

func (w *windows) close(key windowKey) error {
	w.mu.Lock()
	have, ok := w.byKey[key]
	delete(w.byKey, key)
	w.mu.Unlock()
	if !ok {
		return nil
	}
	err := have.Close()
	if err != nil {
		w.keep(key, have) // for WindowOpen to show, and to try again
	}
	return err
}

func (w *windows) closeAll() (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for key, have := range w.byKey {
		err = errors.Join(err, have.Close())
		delete(w.byKey, key)
	}
	return err
}
