// Package mirror copies frames from a tap to a PF with eBPF programs while a VM changes its path, so that both paths receive its
// frames.
package mirror

import (
	"context"
	"fmt"

	"sluice/internal/host/bpf"
	"sluice/internal/host/bridge"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Mirroring manages the mirrors of this host.
type Mirroring struct {
	k       *sysif.Kernel
	links   *netdev.Devices
	bridges *bridge.Bridges
	mirrors *mirrors
}

// New returns a Mirroring that pins mirrors in pins. Close removes those that could not be pinned.
func New(k *sysif.Kernel, links *netdev.Devices, bridges *bridge.Bridges, pins bpf.Pins) *Mirroring {
	return &Mirroring{k: k, links: links, bridges: bridges, mirrors: newMirrors(pins, k.Log)}
}

// Close removes the mirrors that are not pinned.
func (h *Mirroring) Close() error { return h.mirrors.drop() }

// DualPath describes a dual path, during which both paths to a guest receive its inbound frames. The guest's failover or bond drops
// those on the inactive path.
type DualPath struct {
	MAC  model.MAC
	Tap  string
	PF   string
	Port string // the bridge port that leads to the PF or, with Representor, to the VF; "": the PF itself
	VLAN int    // the VF's VLAN, 0: none

	// Representor means that Port is the VF's representor. The mirror copies frames to it, also those from the wire, which the NIC then does
	// not deliver to the VF by itself.
	Representor bool

	Mode Mode
}

// Mode is what the program of a tap does with frames for the MAC.
type Mode string

// Values of Mode. A bridge only needs copies: its own entries send the frames to one path. A switch without such entries sends all frames
// to the tap, and the program decides.
const (
	Copy    Mode = ""     // a dual path: frames also go to the PF if the switch sends them to the tap
	Both    Mode = "both" // the same, of a switch that sends them to the tap
	OpenVF  Mode = "open" // a dual path is open, and frames go to the PF only
	VFAlone Mode = "vf"   // no dual path: frames go to the PF only

	// A switch with one port for each guest, which sends to it only what is for the guest and takes in nothing from other ports, needs two
	// programs for a dual path. Both need a representor.
	All  Mode = "all"  // everything that leaves by the tap also goes to the representor, broadcasts too
	Sent Mode = "sent" // at a representor, given as Tap: everything that the VF sends also comes in by the tap, given as Port
)

// redirects reports whether frames go to the PF only.
func (m Mode) redirects() bool { return m == OpenVF || m == VFAlone }

// out returns the interface that frames are copied to.
func (d DualPath) out() string {
	if d.Representor {
		return d.Port
	}
	return d.PF
}

// OpenDualPath makes both paths receive frames from the bridge: it creates a mirror from the tap to the PF, or to the VF's
// representor, for frames that did not come from there, then pins the FDB entry to the tap. Without representors, frames from the
// wire and from VFs need AddSelf, which a virtio guest needs in any case. Opening an open dual path checks and repairs it, whoever
// opened it.
//
// The mirror comes first: with the entry at the tap and no mirror, a guest that uses its VF receives nothing from the bridge. If
// the mirror fails, note says so, and the entry is pinned only if it is pinned nowhere yet. The existing entry is where the guest
// receives; moving it when the guest switches (a separate Step) loses less than moving it now.
//
// The mirror stays until CloseDualPath, also after Close and any end of the process: an interrupted move leaves both paths open,
// and Mirrors lists it. Without a mounted BPF file system the mirror ends with the Host, which is logged once.
func (h *Mirroring) OpenDualPath(ctx context.Context, d DualPath) (note string, err error) {
	m, err := h.resolve(ctx, &d)
	if err != nil {
		return "", err
	}
	if err = h.open(ctx, d, m); err == nil {
		return "", h.bridges.PinFDB(ctx, d.MAC, d.VLAN, d.Tap)
	}
	note = fmt.Sprintf("frames from the bridge reach one path only: mirror %s to %s: %v", d.Tap, d.out(), err)
	return note, h.bridges.PinIfNowhere(ctx, d.MAC, d.VLAN, d.Tap)
}

// Steer makes the program of a tap do what d.Mode says with frames for the MAC, in one step: no frame meets two programs or none. It
// changes nothing else, and stays until CloseDualPath.
func (h *Mirroring) Steer(ctx context.Context, d DualPath) error {
	m, err := h.resolve(ctx, &d)
	if err == nil {
		err = h.open(ctx, d, m)
	}
	return sysif.Fail("steer frames from", d.Tap, err)
}

func (h *Mirroring) open(ctx context.Context, d DualPath, m mirror) error {
	return h.k.Busy.Exclusive(ctx, "tap "+d.Tap, func() error { return h.mirrors.open(d, m) })
}

// onePort reports whether the mirror is one of those for a switch with one port for each guest.
func (m Mode) onePort() bool { return m == All || m == Sent }

// resolve looks up the interfaces of a dual path.
func (h *Mirroring) resolve(ctx context.Context, d *DualPath) (m mirror, err error) {
	tap, err := h.links.Link(ctx, d.Tap)
	if err != nil {
		return m, err
	}
	out, err := h.links.Link(ctx, d.out())
	if err != nil {
		return m, err
	}
	port := out
	if d.Port != "" {
		if port, err = h.links.Link(ctx, d.Port); err != nil {
			return m, err
		}
	}
	return mirror{
		tap: tap.Index, out: out.Index, port: port.Index, mac: d.MAC, vlan: d.VLAN, redirect: d.Mode.redirects(),
		all: d.Mode.onePort(), ingress: d.Mode == Sent,
	}, nil
}

// CloseDualPath removes the mirror from the tap for the MAC, whichever process created it and for whichever PF. The FDB entry stays
// where it is. It is not an error if there is no mirror.
func (h *Mirroring) CloseDualPath(ctx context.Context, d DualPath) error {
	err := h.k.Busy.Exclusive(ctx, "tap "+d.Tap, func() error { return h.mirrors.close(d.Tap, d.MAC) })
	return sysif.Fail("close mirror from", d.Tap, err)
}

// Mirror is an existing mirror, or the remains of one.
type Mirror struct {
	DualPath

	// Detached means that the tap has gone and the mirror with it; CloseDualPath removes the remains. Unknown is not a reason to
	// remove anything.
	Detached model.Tri
}

// Mirrors lists all mirrors that this or an earlier process opened and nobody closed, sorted by tap and MAC.
func (h *Mirroring) Mirrors(ctx context.Context) ([]Mirror, error) {
	var found []Mirror // not the result: still being written if ctx ends
	err := h.k.Busy.Exclusive(ctx, "list mirrors", func() (err error) {
		found, err = h.mirrors.list()
		return err
	})
	if err != nil {
		return nil, sysif.Fail("list", "mirrors", err)
	}
	return found, nil
}

// CheckMirrors returns the reason why mirrors would end with this process, so that killing it during a move could cut the VM off;
// nil if they would not.
func (h *Mirroring) CheckMirrors() error { return h.mirrors.pins.Ready() }
