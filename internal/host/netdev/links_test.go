package netdev

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

func TestLinksShowsTapsAndTheirCounters(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	tap := kerneltest.NewPort(t, "tap0", "br0")
	idle := kerneltest.NewPort(t, "tap1", "br0")
	kerneltest.IP(t, "link set tap1 down")

	byName := LinksByName(t, h)
	br := byName["br0"]
	want := Link{Index: byName["tap0"].Index, Name: "tap0", Kind: "tun", Master: br.Index, Up: true, Carrier: true}
	if diff := cmp.Diff(want, byName["tap0"]); diff != "" {
		t.Error("tap0 (-want +got):", diff)
	}
	if br.Kind != "bridge" || !br.Up {
		t.Errorf("br0: %+v, want a bridge that is up", br)
	}
	if byName["tap1"].Up {
		t.Errorf("tap1 is shown up after it was set down")
	}

	frame := kerneltest.Frame(kerneltest.Broadcast, kerneltest.Guest, "counted")
	tap.Send(t, frame)
	tap.Send(t, frame)
	got := LinksByName(t, h)["tap0"].Counters
	if got.RxPackets != 2 || got.RxBytes != uint64(2*len(frame)) {
		t.Errorf("after two frames of %d bytes from behind tap0: %+v", len(frame), got)
	}
	kerneltest.Must(t, idle.Close())
	if _, there := LinksByName(t, h)["tap1"]; there {
		t.Error("tap1 is listed after it was closed")
	}
}

func LinksByName(t testing.TB, h *testHost) map[string]Link {
	t.Helper()
	links, err := h.Links(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	byName := map[string]Link{}
	for _, l := range links {
		byName[l.Name] = l
	}
	return byName
}

// TestLinksAreNeverStale compares Links with a dump of everything after all kinds of changes.
func TestLinksAreNeverStale(t *testing.T) {
	h := newHost(t)
	kerneltest.NewBridge(t, "br0")
	kerneltest.NewBridge(t, "br1")
	for seed := range uint64(4) {
		w := linkWorld{rnd: rand.New(rand.NewPCG(seed, 0)), taps: map[string]bool{}}
		for step := range 40 {
			what := w.change(t)
			got, err := h.Links(kerneltest.Soon(t))
			kerneltest.Must(t, err)
			want, err := rtnl.Dump(kerneltest.Soon(t), h.k.Read, linksRequest(), DecodeLink)
			kerneltest.Must(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d step %d, %s: Links differs from a fresh dump (-want +got): %s", seed, step, what, diff)
			}
		}
		w.clear(t)
	}
}

// linkWorld changes taps at random.
type linkWorld struct {
	rnd  *rand.Rand
	taps map[string]bool
}

func (w *linkWorld) clear(t *testing.T) {
	for name := range w.taps {
		kerneltest.IP(t, "link del dev "+name)
	}
}

func (w *linkWorld) change(t *testing.T) string {
	name := []string{"a", "b", "c"}[w.rnd.IntN(3)]
	if !w.taps[name] {
		w.taps[name] = true
		kerneltest.IP(t, "tuntap add mode tap dev "+name)
		return "new " + name
	}
	what := []string{"set up", "set down", "set master br0", "set master br1", "set nomaster", "del"}[w.rnd.IntN(6)]
	verb, args, _ := strings.Cut(what, " ")
	kerneltest.IP(t, "link "+verb+" dev "+name+" "+args)
	if verb == "del" {
		delete(w.taps, name)
	}
	return name + " " + what
}

// TestLinksNeedsOneDump checks that Links reads only counters if nothing changed: it does not see a change that the kernel did
// not report.
func TestLinksNeedsOneDump(t *testing.T) {
	h := newHost(t)
	kerneltest.NewPort(t, "tap0", "")
	LinksByName(t, h)
	if _, _, ok := h.table.known(); !ok {
		t.Fatal("nothing changed, but Links would read everything again")
	}
	h.table.links[0].Kind = "marked"
	if LinksByName(t, h)["lo"].Kind != "marked" {
		t.Error("Links read everything again although nothing changed")
	}
}

// TestLearnKeepsNothingOlderThanAChange tests two concurrent calls: the first reads, then something changes and the second
// notices it, then the first tries to store what it read.
func TestLearnKeepsNothingOlderThanAChange(t *testing.T) {
	h := newHost(t)
	_, first, _ := h.table.known()
	kerneltest.NewPort(t, "tap0", "")
	_, second, _ := h.table.known()
	h.table.learn([]Link{{Index: 1, Name: "stale"}}, first)
	if links, _, ok := h.table.known(); ok {
		t.Fatalf("kept %v, read before the change", links)
	}
	h.table.learn([]Link{{Index: 1, Name: "fresh"}}, second)
	if links, _, ok := h.table.known(); !ok || links[0].Name != "fresh" {
		t.Fatalf("did not keep what was read after the change: %v", links)
	}
}

func TestMergeWantsTheSameInterfaces(t *testing.T) {
	links := []Link{{Index: 1}, {Index: 3}}
	for _, stats := range [][]LinkStats{{{Index: 1}}, {{Index: 1}, {Index: 2}}, {{Index: 1}, {Index: 3}, {Index: 4}}} {
		if merge(links, stats) {
			t.Errorf("counters of %v were merged into %v", stats, links)
		}
	}
	if !merge(links, []LinkStats{{1, Counters{RxBytes: 7}}, {3, Counters{}}}) || links[0].Counters.RxBytes != 7 {
		t.Errorf("counters of the same interfaces were not merged: %v", links)
	}
}

func TestLinkThatIsNotThere(t *testing.T) {
	_, err := newHost(t).Link(kerneltest.Soon(t), "nosuch")
	if !errors.Is(err, model.ErrGone) || !errors.Is(err, unix.ENODEV) {
		t.Errorf("error %v, want one that is model.ErrGone and ENODEV", err)
	}
}

func TestContextThatHasEnded(t *testing.T) {
	h := newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Links(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Links: %v, want context.Canceled", err)
	}
}

// BenchmarkLinks reads 100 taps of a bridge: "steady" like a running daemon, "changed" after a change.
func BenchmarkLinks(b *testing.B) {
	h := newHost(b)
	kerneltest.NewBridge(b, "br0")
	for i := range 100 {
		kerneltest.NewPort(b, fmt.Sprintf("tap%d", i), "br0")
	}
	b.Run("steady", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			benchLinks(b, h)
		}
	})
	b.Run("changed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h.table.links = nil
			benchLinks(b, h)
		}
	})
}

func benchLinks(b *testing.B, h *testHost) {
	links, err := h.Links(b.Context())
	if err != nil || len(links) < 101 {
		b.Fatal(len(links), err)
	}
}

// FuzzDecodeLink fuzzes the decoders of links, their counters and qdiscs.
func FuzzDecodeLink(f *testing.F) {
	f.Add(uint16(unix.RTM_NEWLINK), rtnl.NewRequest(0, 0, rtnl.Link(unix.AF_UNSPEC, 4)).String(unix.IFLA_IFNAME, "tap0").Message().Data)
	f.Add(uint16(unix.RTM_NEWSTATS), append(make([]byte, sizeofStatsMsg), 12, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8))
	f.Add(uint16(unix.RTM_NEWQDISC), ingressRequest(3).String(unix.TCA_KIND, "ingress").Message().Data)
	f.Fuzz(func(t *testing.T, typ uint16, data []byte) {
		m := rtnl.Message{Type: typ, Data: data}
		if l, ok := DecodeLink(m); ok && (l.Name == "" || l.Index <= 0) {
			t.Errorf("took a link without name or index: %+v", l)
		}
		if s, ok := DecodeStats(m); ok && len(data) < sizeofStatsMsg+4 {
			t.Errorf("took counters out of nothing: %+v", s)
		}
		if kind, ok := decodeQdisc(m); ok && len(data) < rtnl.SizeofTraffic+len(kind) {
			t.Errorf("took a qdisc out of nothing: %q", kind)
		}
	})
}
