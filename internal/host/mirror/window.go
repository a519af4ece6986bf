package mirror

import (
	"context"
	"fmt"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Window is a time in which both paths to a guest receive its inbound frames. The guest's
// failover or bond drops what comes on the inactive path.
type Window struct {
	MAC  model.MAC
	Tap  string
	PF   string
	Port string // the bridge's port that leads to the PF, "": the PF itself
	VLAN int    // the VF's VLAN, 0: none
}

// OpenWindow makes both paths receive what comes from the bridge: a mirror from the tap to
// the PF for frames that did not come from there, then the bridge entry to the tap. Those
// from the wire and from VFs take AddSelf: a virtio guest needs that without a window too.
// Opening an open window checks and repairs it, whoever opened it.
//
// The mirror comes first: with the entry at the tap and no mirror, a guest that listens on
// its VF hears nothing from the bridge. If there can be no mirror, note says so, and the
// entry moves only if it points nowhere yet: it is where the guest listens, and moving it
// when the guest changes over (a Step of its own) loses less than moving it now.
//
// The mirror stays until CloseWindow, also beyond Close and the end of the process, however
// that comes: a move that is cut short leaves both paths open, and Mirrors shows it.
// Where no BPF file system is mounted it ends with the Host, which is logged once.
func (h *Mirroring) OpenWindow(ctx context.Context, w Window) (note string, err error) {
	tap, err := h.links.Link(ctx, w.Tap)
	if err != nil {
		return "", err
	}
	pf, err := h.links.Link(ctx, w.PF)
	if err != nil {
		return "", err
	}
	port := pf
	if w.Port != "" {
		if port, err = h.links.Link(ctx, w.Port); err != nil {
			return "", err
		}
	}
	m := mirror{tap: tap.Index, pf: pf.Index, port: port.Index, mac: w.MAC, vlan: w.VLAN}
	err = h.k.Busy.Exclusive(ctx, "tap "+w.Tap, func() error { return h.mirrors.open(w, m) })
	if err == nil {
		return "", h.bridges.PinFDB(ctx, w.MAC, w.VLAN, w.Tap)
	}
	note = fmt.Sprintf("frames from the bridge reach one path only: mirror %s to %s: %v", w.Tap, w.PF, err)
	return note, h.bridges.PinIfNowhere(ctx, w.MAC, w.VLAN, w.Tap)
}

// CloseWindow removes the mirror from the tap for the MAC, whichever process opened it and
// to whichever PF. The bridge entry stays where it is. That there is none is no error.
func (h *Mirroring) CloseWindow(ctx context.Context, w Window) error {
	err := h.k.Busy.Exclusive(ctx, "tap "+w.Tap, func() error { return h.mirrors.close(w.Tap, w.MAC) })
	return sysif.Fail("close mirror from", w.Tap, err)
}

// Mirror is a mirror that stands, or what is left of one.
type Mirror struct {
	Window

	// Detached says whether the tap has gone, which took the mirror with it; CloseWindow
	// removes what is left. Unknown is no reason to remove anything.
	Detached model.Tri
}

// Mirrors lists the mirrors of all windows that this or an earlier process opened and
// nobody closed, sorted by tap and MAC.
func (h *Mirroring) Mirrors(ctx context.Context) ([]Mirror, error) {
	var found []Mirror // not the result: if ctx ends, this is still being written
	err := h.k.Busy.Exclusive(ctx, "list mirrors", func() (err error) {
		found, err = h.mirrors.list()
		return err
	})
	if err != nil {
		return nil, sysif.Fail("list", "mirrors", err)
	}
	return found, nil
}

// CheckMirrors says why mirrors would end with this process, so that a kill during a move
// could cut the VM off; nil if they would not.
func (h *Mirroring) CheckMirrors() error { return h.mirrors.pins.Ready() }
