package kernel

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// lan is a bridge with a PF-like port, the guest's tap and another machine's.
type lan struct {
	pf, tap, peer *kerneltest.Port
}

// FDB returns the static bridge entries of all bridges: the port each MAC is pinned to.
// A MAC that is pinned to different ports (on several VLANs or bridges) shows the
// first by name; FDBEntries has them all.
func (h *Host) FDB(ctx context.Context) (map[model.MAC]string, error) {
	entries, err := h.FDBEntries(ctx)
	if err != nil {
		return nil, err
	}
	ports := make(map[model.MAC]string, len(entries))
	for _, e := range entries {
		if _, have := ports[e.MAC]; !have {
			ports[e.MAC] = e.Port
		}
	}
	return ports, nil
}

func newLAN(t testing.TB) lan {
	kerneltest.NewBridge(t, "br0")
	return lan{
		pf:   kerneltest.NewPort(t, "pf0", "br0"),
		tap:  kerneltest.NewPort(t, "tap0", "br0"),
		peer: kerneltest.NewPort(t, "tap1", "br0"),
	}
}

func TestPinMoves(t *testing.T) {
	h, l := newHost(t), newLAN(t)
	if pins, err := h.FDB(soon(t)); err != nil || len(pins) != 0 {
		t.Fatalf("before any pin: %v, %v", pins, err)
	}
	toGuest := kerneltest.Frame(guest, other, "hello")
	for i, c := range []struct {
		port       string
		get, spare *kerneltest.Port
	}{{"tap0", l.tap, l.pf}, {"pf0", l.pf, l.tap}, {"pf0", l.pf, l.tap}, {"tap0", l.tap, l.pf}} {
		must(t, h.PinFDB(soon(t), guest, 0, c.port))
		pins, err := h.FDB(soon(t))
		must(t, err)
		if diff := cmp.Diff(map[model.MAC]string{guest: c.port}, pins); diff != "" {
			t.Fatalf("pin %d (-want +got): %s", i, diff)
		}
		l.peer.Send(t, toGuest)
		c.get.Expect(t, toGuest)
		// The other port sees the next flooded frame first.
		flooded := kerneltest.Frame(stray, other, "flooded")
		l.peer.Send(t, flooded)
		c.get.Expect(t, flooded)
		c.spare.Expect(t, flooded)
	}
	for range 2 {
		must(t, h.UnpinFDB(soon(t), guest, 0, "tap0"))
	}
	if pins, err := h.FDB(soon(t)); err != nil || len(pins) != 0 {
		t.Errorf("after unpinning: %v, %v", pins, err)
	}
}

// TestPinAtTheTapStays: what comes back from the wire must not move it.
func TestPinAtTheTapStays(t *testing.T) {
	h, l := newHost(t), newLAN(t)
	must(t, h.PreparePort(soon(t), "pf0"))
	must(t, h.PinFDB(soon(t), guest, 0, "tap0"))
	l.pf.Send(t, kerneltest.Frame(bcast, guest, "reflected by the wire"))
	pinnedTo(t, h, "tap0")
	l.tap.Next(t)
	toGuest := kerneltest.Frame(guest, other, "still there?")
	l.peer.Send(t, toGuest)
	l.tap.Expect(t, toGuest)
}

// TestPinAtThePFFollowsTheGuest: a guest that loses its VF sends through its tap.
func TestPinAtThePFFollowsTheGuest(t *testing.T) {
	h, l := newHost(t), newLAN(t)
	must(t, h.PreparePort(soon(t), "pf0"))
	must(t, h.PinFDB(soon(t), guest, 0, "pf0"))
	l.tap.Send(t, kerneltest.Frame(bcast, guest, "my VF is gone"))
	pinnedTo(t, h, "tap0")
}

// TestStickyPinStays: nobody can pull it, but PinFDB moves it.
func TestStickyPinStays(t *testing.T) {
	h, err := New(Options{StickyPins: true})
	must(t, err)
	defer h.Close()
	l := newLAN(t)
	must(t, h.PinFDB(soon(t), guest, 0, "pf0"))
	for _, p := range []*kerneltest.Port{l.peer, l.tap} {
		p.Send(t, kerneltest.Frame(bcast, guest, "forged"))
		pinnedTo(t, h, "pf0")
	}
	must(t, h.PinFDB(soon(t), guest, 0, "tap0"))
	l.pf.Send(t, kerneltest.Frame(bcast, guest, "forged"))
	pinnedTo(t, h, "tap0")
}

func pinnedTo(t *testing.T, h *Host, want string) {
	t.Helper()
	pins, err := h.FDB(soon(t))
	must(t, err)
	if pins[guest] != want {
		t.Errorf("pinned to %q, want %s", pins[guest], want)
	}
}

func TestPinReplacesWhatWasLearned(t *testing.T) {
	h, l := newHost(t), newLAN(t)
	l.pf.Send(t, kerneltest.Frame(bcast, guest, "learn me at pf0"))
	l.tap.Next(t)
	if pins, err := h.FDB(soon(t)); err != nil || len(pins) != 0 {
		t.Fatalf("a learned entry counts as pinned: %v, %v", pins, err)
	}
	must(t, h.PinFDB(soon(t), guest, 0, "tap0"))
	toGuest := kerneltest.Frame(guest, other, "hello")
	l.peer.Send(t, toGuest)
	l.tap.Expect(t, kerneltest.Frame(guest, other, "hello"))
	if pins, err := h.FDB(soon(t)); err != nil || pins[guest] != "tap0" {
		t.Errorf("pinned to %v, %v; want tap0", pins, err)
	}
}

func TestFDBOfSeveralBridges(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	kerneltest.NewBridge(t, "br1")
	kerneltest.NewPort(t, "p2", "br0")
	kerneltest.NewPort(t, "p1", "br1")
	must(t, h.PinFDB(soon(t), guest, 0, "p2"))
	must(t, h.PinFDB(soon(t), guest, 0, "p1"))
	must(t, h.PinFDB(soon(t), other, 0, "p2"))
	got, err := h.FDBEntries(soon(t))
	must(t, err)
	want := []FDBEntry{
		{MAC: guest, Port: "p1", Bridge: "br1"},
		{MAC: guest, Port: "p2", Bridge: "br0"},
		{MAC: other, Port: "p2", Bridge: "br0"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("(-want +got):", diff)
	}
	pins, err := h.FDB(soon(t))
	must(t, err)
	if pins[guest] != "p1" {
		t.Errorf("of two ports %q is shown, want the first by name", pins[guest])
	}
}

func TestPinErrors(t *testing.T) {
	h := newHost(t)
	kerneltest.NewPort(t, "tap0", "")
	err := h.PinFDB(soon(t), guest, 0, "tap0")
	if err == nil || !strings.Contains(err.Error(), "not a port of a bridge") || !strings.Contains(err.Error(), "tap0") {
		t.Errorf("port without bridge: %v", err)
	}
	if err := h.PinFDB(soon(t), guest, 0, "nosuch"); !errors.Is(err, model.ErrGone) {
		t.Errorf("port that is gone: %v, want model.ErrGone", err)
	}
	for _, port := range []string{"tap0", "nosuch", ""} {
		if err := h.UnpinFDB(soon(t), guest, 0, port); err != nil {
			t.Errorf("unpin where nothing can be pinned: %v", err)
		}
	}
	if err := h.PreparePort(soon(t), "tap0"); err == nil || !strings.Contains(err.Error(), "not a port of a bridge") {
		t.Errorf("prepare a port without bridge: %v", err)
	}
}

func TestSelfFilters(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	kerneltest.NewPort(t, "pf0", "br0")
	must(t, h.PinFDB(soon(t), stray, 0, "pf0")) // of the bridge: not to be confused
	for range 2 {
		must(t, h.AddSelf(soon(t), "pf0", other))
		must(t, h.AddSelf(soon(t), "pf0", guest))
	}
	got, err := h.Selfs(soon(t), "pf0")
	must(t, err)
	if diff := cmp.Diff([]model.MAC{guest, other}, got); diff != "" {
		t.Error("(-want +got):", diff)
	}
	for range 2 {
		must(t, h.DelSelf(soon(t), "pf0", guest))
	}
	if got, err := h.Selfs(soon(t), "pf0"); err != nil || len(got) != 1 || got[0] != other {
		t.Errorf("after removing one: %v, %v", got, err)
	}
	if err := h.AddSelf(soon(t), "nosuch", guest); !errors.Is(err, model.ErrGone) {
		t.Errorf("filter of a PF that is gone: %v, want model.ErrGone", err)
	}
	must(t, h.DelSelf(soon(t), "nosuch", guest))
	for _, m := range []model.MAC{zeroes, bcast} {
		if err := h.AddSelf(soon(t), "pf0", m); !errors.Is(err, model.ErrPermanent) {
			t.Errorf("filter for %s: %v, want model.ErrPermanent", m, err)
		}
		if err := h.PinFDB(soon(t), m, 0, "pf0"); !errors.Is(err, model.ErrPermanent) {
			t.Errorf("pin for %s: %v, want model.ErrPermanent", m, err)
		}
	}
}

func TestPreparePort(t *testing.T) {
	h, l := newHost(t), newLAN(t)
	for range 2 {
		must(t, h.PreparePort(soon(t), "pf0"))
	}
	l.pf.Send(t, kerneltest.Frame(bcast, guest, "do not learn me"))
	l.tap.Next(t)
	flooded := kerneltest.Frame(guest, other, "hello")
	l.peer.Send(t, flooded)
	l.tap.Expect(t, flooded) // and not only to pf0
}

// TestPinWithVLANs runs where the bridge can filter VLANs; elsewhere it shows that the
// kernel cannot.
func TestPinWithVLANs(t *testing.T) {
	h := newHost(t)
	newLAN(t)
	must(t, h.PinFDB(soon(t), other, 20, "tap1"))
	if e, err := h.FDBEntries(soon(t)); err != nil || len(e) != 1 || e[0].VLAN != 0 {
		t.Fatalf("a bridge without VLANs: %v, %v; want an entry without VLAN", e, err)
	}
	if !filterVLANs(t, "br0") {
		return
	}
	for _, port := range []string{"pf0", "tap0"} {
		for _, vid := range []string{"10", "20"} {
			kerneltest.Bridge(t, "vlan add dev "+port+" vid "+vid)
		}
	}
	must(t, h.PinFDB(soon(t), guest, 10, "tap0"))
	must(t, h.PinFDB(soon(t), guest, 10, "pf0"))
	want := []FDBEntry{{MAC: guest, Port: "pf0", Bridge: "br0", VLAN: 10}}
	if diff := cmp.Diff(want, entriesOf(t, h, guest)); diff != "" {
		t.Error("pinned in one VLAN (-want +got):", diff)
	}
	// In all VLANs: the PF carries one that the tap does not.
	kerneltest.Bridge(t, "vlan add dev pf0 vid 30")
	must(t, h.PinFDB(soon(t), guest, 0, "pf0"))
	must(t, h.PinFDB(soon(t), guest, 0, "tap0"))
	var vids []int
	for _, e := range entriesOf(t, h, guest) {
		vids = append(vids, e.VLAN)
		if e.Port != "tap0" {
			t.Errorf("pinned to tap0 in all VLANs, but there is still %+v", e)
		}
	}
	if diff := cmp.Diff([]int{1, 10, 20}, vids); diff != "" {
		t.Error("VLANs of the pin (-want +got):", diff)
	}
}

// filterVLANs says no only if the kernel cannot.
func filterVLANs(t *testing.T, bridge string) bool {
	err := osFiles{}.WriteFile("/sys/class/net/"+bridge+"/bridge/vlan_filtering", []byte("1"))
	if errors.Is(err, os.ErrNotExist) {
		lacks(t, "VLAN filters of bridges (CONFIG_BRIDGE_VLAN_FILTERING)")
		return false
	}
	must(t, err)
	return true
}

func entriesOf(t *testing.T, h *Host, m model.MAC) (of []FDBEntry) {
	t.Helper()
	all, err := h.FDBEntries(soon(t))
	must(t, err)
	for _, e := range all {
		if e.MAC == m {
			of = append(of, e)
		}
	}
	return of
}

// FuzzDecodeFDB feeds the decoders of bridge entries and of what a port is set to.
func FuzzDecodeFDB(f *testing.F) {
	f.Add(uint16(unix.RTM_NEWNEIGH), pinRequest(guest, 5, 7, true).Message().Data)
	f.Fuzz(func(t *testing.T, typ uint16, data []byte) {
		m := rtnl.Message{Type: typ, Data: data}
		if n, ok := decodeFDB(m); ok && (n.port <= 0 || n.vlan < 0 || n.vlan > 1<<16) {
			t.Errorf("took an entry without port: %+v", n)
		}
		_, _ = decodeLearning(m)
		relevant(m)
	})
}
