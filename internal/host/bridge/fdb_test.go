package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// pinned returns the port to which each MAC is pinned.
func pinned(t *testing.T, h *testHost) map[model.MAC]string {
	t.Helper()
	entries, err := h.FDBEntries(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	ports := map[model.MAC]string{}
	for _, e := range entries {
		ports[e.MAC] = e.Port
	}
	return ports
}

// pinnedTo checks the port to which the guest's address is pinned.
func pinnedTo(t *testing.T, h *testHost, want string) {
	t.Helper()
	if got := pinned(t, h)[kerneltest.Guest]; got != want {
		t.Errorf("pinned to %q, want %s", got, want)
	}
}

func TestPinMoves(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	if pins := pinned(t, h); len(pins) != 0 {
		t.Fatalf("before any pin: %v", pins)
	}
	toGuest := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "hello")
	for i, c := range []struct {
		port       string
		get, spare *kerneltest.Port
	}{{"tap0", l.Tap, l.PF}, {"pf0", l.PF, l.Tap}, {"pf0", l.PF, l.Tap}, {"tap0", l.Tap, l.PF}} {
		kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, c.port))
		if diff := cmp.Diff(map[model.MAC]string{kerneltest.Guest: c.port}, pinned(t, h)); diff != "" {
			t.Fatalf("pin %d (-want +got): %s", i, diff)
		}
		l.Peer.Send(t, toGuest)
		c.get.Expect(t, toGuest)
		// The other port receives the next flooded frame first.
		flooded := kerneltest.Frame(kerneltest.Stray, kerneltest.Other, "flooded")
		l.Peer.Send(t, flooded)
		c.get.Expect(t, flooded)
		c.spare.Expect(t, flooded)
	}
	for range 2 {
		kerneltest.Must(t, h.UnpinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "tap0"))
	}
	if pins := pinned(t, h); len(pins) != 0 {
		t.Errorf("after unpinning: %v", pins)
	}
}

// TestPinAtTheTapStays checks that frames returning from the wire do not move the entry.
func TestPinAtTheTapStays(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	kerneltest.Must(t, h.PreparePort(kerneltest.Soon(t), "pf0"))
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "tap0"))
	l.PF.Send(t, kerneltest.Frame(kerneltest.Broadcast, kerneltest.Guest, "reflected by the wire"))
	pinnedTo(t, h, "tap0")
	l.Tap.Next(t)
	toGuest := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "still there?")
	l.Peer.Send(t, toGuest)
	l.Tap.Expect(t, toGuest)
}

// TestPinAtThePFFollowsTheGuest checks that the entry follows a guest that loses its VF and sends through its tap.
func TestPinAtThePFFollowsTheGuest(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	kerneltest.Must(t, h.PreparePort(kerneltest.Soon(t), "pf0"))
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "pf0"))
	l.Tap.Send(t, kerneltest.Frame(kerneltest.Broadcast, kerneltest.Guest, "my VF is gone"))
	pinnedTo(t, h, "tap0")
}

// TestStickyPinStays checks that no frame moves a sticky entry, but PinFDB does.
func TestStickyPinStays(t *testing.T) {
	h := newHostWith(t, true)
	l := kerneltest.NewLAN(t)
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "pf0"))
	for _, p := range []*kerneltest.Port{l.Peer, l.Tap} {
		p.Send(t, kerneltest.Frame(kerneltest.Broadcast, kerneltest.Guest, "forged"))
		pinnedTo(t, h, "pf0")
	}
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "tap0"))
	l.PF.Send(t, kerneltest.Frame(kerneltest.Broadcast, kerneltest.Guest, "forged"))
	pinnedTo(t, h, "tap0")
}

func TestPinReplacesWhatWasLearned(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	l.PF.Send(t, kerneltest.Frame(kerneltest.Broadcast, kerneltest.Guest, "learn me at pf0"))
	l.Tap.Next(t)
	if pins := pinned(t, h); len(pins) != 0 {
		t.Fatalf("a learned entry counts as pinned: %v", pins)
	}
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "tap0"))
	toGuest := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "hello")
	l.Peer.Send(t, toGuest)
	l.Tap.Expect(t, toGuest)
	pinnedTo(t, h, "tap0")
}

func TestFDBOfSeveralBridges(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	kerneltest.NewBridge(t, "br1")
	kerneltest.NewPort(t, "p2", "br0")
	kerneltest.NewPort(t, "p1", "br1")
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "p2"))
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "p1"))
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Other, 0, "p2"))
	got, err := h.FDBEntries(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	want := []FDBEntry{
		{MAC: kerneltest.Guest, Port: "p1", Bridge: "br1"},
		{MAC: kerneltest.Guest, Port: "p2", Bridge: "br0"},
		{MAC: kerneltest.Other, Port: "p2", Bridge: "br0"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("(-want +got):", diff)
	}
}

func TestPinErrors(t *testing.T) {
	h := newHost(t)
	kerneltest.NewPort(t, "tap0", "")
	err := h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "tap0")
	if err == nil || !strings.Contains(err.Error(), "not a port of a bridge") || !strings.Contains(err.Error(), "tap0") {
		t.Errorf("port without bridge: %v", err)
	}
	if err := h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "nosuch"); !errors.Is(err, model.ErrGone) {
		t.Errorf("port that is gone: %v, want model.ErrGone", err)
	}
	for _, port := range []string{"tap0", "nosuch", ""} {
		if err := h.UnpinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, port); err != nil {
			t.Errorf("unpin where nothing can be pinned: %v", err)
		}
	}
	if err := h.PreparePort(kerneltest.Soon(t), "tap0"); err == nil || !strings.Contains(err.Error(), "not a port of a bridge") {
		t.Errorf("prepare a port without bridge: %v", err)
	}
}

func TestSelfFilters(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	kerneltest.NewPort(t, "pf0", "br0")
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Stray, 0, "pf0")) // of the bridge, not a filter of the PF
	for range 2 {
		kerneltest.Must(t, h.AddSelf(kerneltest.Soon(t), "pf0", kerneltest.Other))
		kerneltest.Must(t, h.AddSelf(kerneltest.Soon(t), "pf0", kerneltest.Guest))
	}
	got, err := h.Selfs(kerneltest.Soon(t), "pf0")
	kerneltest.Must(t, err)
	if diff := cmp.Diff([]model.MAC{kerneltest.Guest, kerneltest.Other}, got); diff != "" {
		t.Error("(-want +got):", diff)
	}
	for range 2 {
		kerneltest.Must(t, h.DelSelf(kerneltest.Soon(t), "pf0", kerneltest.Guest))
	}
	if got, err := h.Selfs(kerneltest.Soon(t), "pf0"); err != nil || len(got) != 1 || got[0] != kerneltest.Other {
		t.Errorf("after removing one: %v, %v", got, err)
	}
	if err := h.AddSelf(kerneltest.Soon(t), "nosuch", kerneltest.Guest); !errors.Is(err, model.ErrGone) {
		t.Errorf("filter of a PF that is gone: %v, want model.ErrGone", err)
	}
	kerneltest.Must(t, h.DelSelf(kerneltest.Soon(t), "nosuch", kerneltest.Guest))
	for _, m := range []model.MAC{kerneltest.NoMAC, kerneltest.Broadcast} {
		if err := h.AddSelf(kerneltest.Soon(t), "pf0", m); !errors.Is(err, model.ErrPermanent) {
			t.Errorf("filter for %s: %v, want model.ErrPermanent", m, err)
		}
		if err := h.PinFDB(kerneltest.Soon(t), m, 0, "pf0"); !errors.Is(err, model.ErrPermanent) {
			t.Errorf("pin for %s: %v, want model.ErrPermanent", m, err)
		}
	}
}

func TestPreparePort(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	for range 2 {
		kerneltest.Must(t, h.PreparePort(kerneltest.Soon(t), "pf0"))
	}
	l.PF.Send(t, kerneltest.Frame(kerneltest.Broadcast, kerneltest.Guest, "do not learn me"))
	l.Tap.Next(t)
	flooded := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "hello")
	l.Peer.Send(t, flooded)
	l.Tap.Expect(t, flooded) // flooded, not only sent to pf0
}

// TestPinWithVLANs tests VLANs if the bridge supports filtering them, and logs it otherwise.
func TestPinWithVLANs(t *testing.T) {
	h := newHost(t)
	kerneltest.NewLAN(t)
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Other, 20, "tap1"))
	if e, err := h.FDBEntries(kerneltest.Soon(t)); err != nil || len(e) != 1 || e[0].VLAN != 0 {
		t.Fatalf("a bridge without VLANs: %v, %v; want an entry without VLAN", e, err)
	}
	if !kerneltest.FilterVLANs(t, "br0") {
		return
	}
	for _, port := range []string{"pf0", "tap0"} {
		for _, vid := range []string{"10", "20"} {
			kerneltest.Bridge(t, "vlan add dev "+port+" vid "+vid)
		}
	}
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 10, "tap0"))
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 10, "pf0"))
	want := []FDBEntry{{MAC: kerneltest.Guest, Port: "pf0", Bridge: "br0", VLAN: 10}}
	if diff := cmp.Diff(want, entriesOf(t, h, kerneltest.Guest)); diff != "" {
		t.Error("pinned in one VLAN (-want +got):", diff)
	}
	// In all VLANs: the PF is in one that the tap is not in.
	kerneltest.Bridge(t, "vlan add dev pf0 vid 30")
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "pf0"))
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "tap0"))
	var vids []int
	for _, e := range entriesOf(t, h, kerneltest.Guest) {
		vids = append(vids, e.VLAN)
		if e.Port != "tap0" {
			t.Errorf("pinned to tap0 in all VLANs, but there is still %+v", e)
		}
	}
	if diff := cmp.Diff([]int{1, 10, 20}, vids); diff != "" {
		t.Error("VLANs of the pin (-want +got):", diff)
	}
}

func entriesOf(t *testing.T, h *testHost, m model.MAC) (of []FDBEntry) {
	t.Helper()
	all, err := h.FDBEntries(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	for _, e := range all {
		if e.MAC == m {
			of = append(of, e)
		}
	}
	return of
}

// FuzzDecodeFDB fuzzes the decoders of FDB entries and port settings.
func FuzzDecodeFDB(f *testing.F) {
	f.Add(uint16(unix.RTM_NEWNEIGH), pinRequest(kerneltest.Guest, 5, 7, true).Message().Data)
	f.Fuzz(func(t *testing.T, typ uint16, data []byte) {
		m := rtnl.Message{Type: typ, Data: data}
		if n, ok := decodeFDB(m); ok && (n.port <= 0 || n.vlan < 0 || n.vlan > 1<<16) {
			t.Errorf("took an entry without port: %+v", n)
		}
		_, _ = decodePort(unix.IFLA_BRPORT_LEARNING)(m)
		relevant(m)
	})
}

func TestPinWithAnEndedContext(t *testing.T) {
	h := newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.PinFDB(ctx, kerneltest.Guest, 0, "lo"); !errors.Is(err, context.Canceled) {
		t.Errorf("PinFDB: %v, want context.Canceled", err)
	}
}

// BenchmarkFDB reads the entries of a bridge with 100 taps.
func BenchmarkFDB(b *testing.B) {
	h := newHost(b)
	kerneltest.NewBridge(b, "br0")
	for i := range 100 {
		kerneltest.NewPort(b, fmt.Sprintf("tap%d", i), "br0")
		kerneltest.Must(b, h.PinFDB(kerneltest.Soon(b), model.MAC{2, byte(i)}, 0, fmt.Sprintf("tap%d", i)))
	}
	b.ReportAllocs()
	for b.Loop() {
		_, err := h.FDBEntries(kerneltest.Soon(b))
		kerneltest.Must(b, err)
	}
}
