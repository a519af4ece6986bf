package kernel

import (
	"errors"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
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
	if found, err := h.Mirrors(soon(t)); err != nil || len(found) != 1 || found[0].Window != w {
		t.Errorf("mirrors %v, %v; want the one that moved", found, err)
	}
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

func TestWindowNeedsTheBridge(t *testing.T) {
	h := newHost(t)
	newLAN(t)
	kerneltest.IP(t, "link set tap0 nomaster")
	if _, err := h.OpenWindow(soon(t), window); !errors.Is(err, errNotPort) {
		t.Errorf("tap without bridge: %v, want an error", err)
	}
}

// TestWindowWhereVLANsAreFiltered runs where the bridge can filter VLANs, as the lab's can:
// the guest's tap is an untagged port of its VLAN, the PF's port a tagged one.
func TestWindowWhereVLANsAreFiltered(t *testing.T) {
	h, l := newHost(t), newLAN(t)
	if !filterVLANs(t, "br0") {
		return
	}
	for _, line := range []string{"dev tap0 vid 10 pvid untagged", "dev tap1 vid 10 pvid untagged", "dev pf0 vid 10"} {
		kerneltest.Bridge(t, "vlan add "+line)
	}
	w := window
	w.VLAN = 10
	openQuietly(t, h, w)
	f := kerneltest.Frame(guest, other, "in VLAN 10")
	tagged := append(append(append([]byte{}, f[:12]...), 0x81, 0, 0, 10), f[12:]...)
	l.peer.Send(t, f)
	l.tap.Expect(t, f)
	l.pf.Expect(t, tagged)
	l.pf.Send(t, tagged) // from the wire: the NIC has given it to the VF already
	l.tap.Expect(t, f)

	must(t, h.PinFDB(soon(t), guest, 10, "pf0"))
	must(t, h.CloseWindow(soon(t), w))
	l.peer.Send(t, f)
	l.pf.Expect(t, tagged) // nothing came in between, and nothing reaches the tap:
	must(t, h.PinFDB(soon(t), guest, 10, "tap0"))
	marker := kerneltest.Frame(guest, other, "marker")
	l.peer.Send(t, marker)
	l.tap.Expect(t, marker)
}
