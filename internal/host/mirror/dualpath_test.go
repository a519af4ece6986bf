package mirror

import (
	"errors"
	"testing"

	"sluice/internal/host/bridge"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

var dual = DualPath{MAC: kerneltest.Guest, Tap: "tap0", PF: "pf0"}

func openQuietly(t *testing.T, h *testHost, d DualPath) {
	t.Helper()
	note, err := h.OpenDualPath(kerneltest.Soon(t), d)
	if err != nil || note != "" {
		t.Fatalf("open dual path: note %q, error %v", note, err)
	}
}

// reachesBoth checks that a frame from another machine's tap reaches both paths to the guest.
func reachesBoth(t *testing.T, l kerneltest.LAN) {
	t.Helper()
	f := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "to both")
	l.Peer.Send(t, f)
	l.SentOnly(t, l.Peer, map[*kerneltest.Port][]byte{l.Tap: f, l.PF: f})
}

// reachesTap checks that a frame from another machine's tap reaches the guest's tap only.
func reachesTap(t *testing.T, l kerneltest.LAN) {
	t.Helper()
	f := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "to the tap only")
	l.Peer.Send(t, f)
	l.SentOnly(t, l.Peer, map[*kerneltest.Port][]byte{l.Tap: f})
}

func TestDualPathReachesBothPaths(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	for range 2 { // opening twice mirrors once
		openQuietly(t, h, dual)
	}
	fromPeer := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "from the bridge")
	l.Peer.Send(t, fromPeer)
	l.SentOnly(t, l.Peer, map[*kerneltest.Port][]byte{l.Tap: fromPeer, l.PF: fromPeer})

	fromWire := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "from the wire")
	l.PF.Send(t, fromWire)
	l.SentOnly(t, l.Peer, map[*kerneltest.Port][]byte{l.Tap: fromWire})

	broadcast := kerneltest.Frame(kerneltest.Broadcast, kerneltest.Other, "to all")
	l.Peer.Send(t, broadcast)
	l.SentOnly(t, l.Peer, map[*kerneltest.Port][]byte{l.Tap: broadcast, l.PF: broadcast})

	byHost := kerneltest.Frame(kerneltest.Guest, kerneltest.Stray, "by the host itself")
	br, err := h.Link(kerneltest.Soon(t), "br0")
	kerneltest.Must(t, err)
	kerneltest.Must(t, bridge.SendFrame(br.Index, byHost))
	l.SentOnly(t, l.Peer, map[*kerneltest.Port][]byte{l.Tap: byHost, l.PF: byHost})
}

func TestClosedDualPathMirrorsNothing(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	openQuietly(t, h, dual)
	for range 2 {
		kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), dual))
	}
	reachesTap(t, l)
	pinnedTo(t, h, "tap0") // closing must not change the entry
}

func TestDualPathLeavesSelfAlone(t *testing.T) {
	h := newHost(t)
	kerneltest.NewLAN(t)
	openQuietly(t, h, dual)
	if selfs, err := h.Selfs(kerneltest.Soon(t), "pf0"); err != nil || len(selfs) != 0 {
		t.Errorf("filters of the PF: %v, %v; want none made", selfs, err)
	}
	kerneltest.Must(t, h.AddSelf(kerneltest.Soon(t), "pf0", kerneltest.Guest))
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), dual))
	if selfs, err := h.Selfs(kerneltest.Soon(t), "pf0"); err != nil || len(selfs) != 1 {
		t.Errorf("filters of the PF: %v, %v; want the guest's kept", selfs, err)
	}
}

// TestDualPathOfTapThatCameBack stops and starts a guest during a dual path: opening it again must attach to the new tap.
func TestDualPathOfTapThatCameBack(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	openQuietly(t, h, dual)
	kerneltest.Must(t, l.Tap.Close())
	_, err := h.OpenDualPath(kerneltest.Soon(t), dual)
	if !errors.Is(err, model.ErrGone) {
		t.Errorf("dual path to a tap that is gone: %v, want model.ErrGone", err)
	}
	l.Tap = kerneltest.NewPort(t, "tap0", "br0")
	openQuietly(t, h, dual)
	reachesBoth(t, l)
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), dual))
}

func TestDualPathMovesToAnotherPF(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	openQuietly(t, h, dual)
	d := dual
	d.PF = "tap1"
	openQuietly(t, h, d)
	f := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "from the old PF")
	l.PF.Send(t, f)
	l.SentOnly(t, l.PF, map[*kerneltest.Port][]byte{l.Tap: f, l.Peer: f})
	if found, err := h.Mirrors(kerneltest.Soon(t)); err != nil || len(found) != 1 || found[0].DualPath != d {
		t.Errorf("mirrors %v, %v; want the one that moved", found, err)
	}
}

// TestDualPathTagsCopies tests a VF with a VLAN, whose filter requires the tag that the tap's frames lack.
func TestDualPathTagsCopies(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	d := dual
	d.VLAN = 100
	openQuietly(t, h, d)
	f := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "tagged on the wire")
	tagged := append(append(append([]byte{}, f[:12]...), 0x81, 0, 0, 100), f[12:]...)
	for range 2 {
		l.Peer.Send(t, f)
		l.SentOnly(t, l.Peer, map[*kerneltest.Port][]byte{l.Tap: f, l.PF: tagged})
	}
	// A frame that already has a tag is copied unchanged.
	l.Peer.Send(t, tagged)
	l.SentOnly(t, l.Peer, map[*kerneltest.Port][]byte{l.Tap: tagged, l.PF: tagged})
}

func TestDualPathNeedsTheBridge(t *testing.T) {
	h := newHost(t)
	kerneltest.NewLAN(t)
	kerneltest.IP(t, "link set tap0 nomaster")
	if _, err := h.OpenDualPath(kerneltest.Soon(t), dual); !errors.Is(err, bridge.ErrNotPort) {
		t.Errorf("tap without bridge: %v, want an error", err)
	}
}

// TestDualPathWhereVLANsAreFiltered tests a bridge that filters VLANs, if the kernel supports it, as the lab's does: the guest's
// tap is an untagged port of its VLAN, the PF's port a tagged one.
func TestDualPathWhereVLANsAreFiltered(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	if !kerneltest.FilterVLANs(t, "br0") {
		return
	}
	for _, line := range []string{"dev tap0 vid 10 pvid untagged", "dev tap1 vid 10 pvid untagged", "dev pf0 vid 10"} {
		kerneltest.Bridge(t, "vlan add "+line)
	}
	d := dual
	d.VLAN = 10
	openQuietly(t, h, d)
	f := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "in VLAN 10")
	tagged := append(append(append([]byte{}, f[:12]...), 0x81, 0, 0, 10), f[12:]...)
	l.Peer.Send(t, f)
	l.Tap.Expect(t, f)
	l.PF.Expect(t, tagged)
	l.PF.Send(t, tagged) // from the wire: the NIC has already delivered it to the VF
	l.Tap.Expect(t, f)

	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 10, "pf0"))
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), d))
	l.Peer.Send(t, f)
	l.PF.Expect(t, tagged) // nothing came in between, and nothing reaches the tap:
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 10, "tap0"))
	marker := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "marker")
	l.Peer.Send(t, marker)
	l.Tap.Expect(t, marker)
}

// TestDualPathToRepresentor: nothing that arrives reaches the VF by itself, so frames from the wire are copied to its representor as well,
// once, and without a tag.
func TestDualPathToRepresentor(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	rep := kerneltest.NewPort(t, "rep0", "br0")
	d := DualPath{MAC: kerneltest.Guest, Tap: "tap0", PF: "pf0", Port: "rep0", Representor: true}
	for range 2 {
		openQuietly(t, h, d)
	}
	if all, err := h.Mirrors(kerneltest.Soon(t)); err != nil || len(all) != 1 || all[0].DualPath != d {
		t.Errorf("mirrors %+v, %v", all, err)
	}
	for _, from := range []*kerneltest.Port{l.PF, l.Peer} {
		frame := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "from "+from.Name)
		from.Send(t, frame)
		l.SentOnly(t, from, map[*kerneltest.Port][]byte{l.Tap: frame})
		rep.Expect(t, frame)
		rep.Next(t) // the marker of SentOnly
	}
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), d))
	frame := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "after it")
	l.PF.Send(t, frame)
	l.SentOnly(t, l.PF, map[*kerneltest.Port][]byte{l.Tap: frame})
	if got := rep.Next(t); string(got) == string(frame) {
		t.Error("the representor gets frames after the dual path was closed")
	}
}
