package observe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/host/guest"
	"sluice/internal/model"
)

// fakeGuest is a guest with a failover device over a virtio NIC and a VF.
type fakeGuest struct {
	virtio, vf counts
	bond       bool // no device over both
	plain      bool // the VF is absent
	lie        uint64
	extra      []guest.Counters
}

func dev(name string, c counts) guest.Counters {
	return guest.Counters{
		Name: name, MAC: mac(1), RxPackets: c.rxPackets, TxPackets: c.txPackets, RxBytes: c.rxBytes, TxBytes: c.txBytes,
	}
}

func sum(a, b counts) counts {
	return counts{a.rxPackets + b.rxPackets, a.txPackets + b.txPackets, a.rxBytes + b.rxBytes, a.txBytes + b.txBytes}
}

// devs returns the guest's answer. A liar adds to its virtio counters.
func (g *fakeGuest) devs() []guest.Counters {
	v := g.virtio
	v.rxPackets += g.lie
	out := []guest.Counters{dev("eth0nsby", v), {Name: "lo"}, {Name: "docker0", MAC: mac(77), RxPackets: 5}}
	if !g.plain {
		out = append(out, dev("enp2s0", g.vf))
	}
	if !g.bond {
		out = append(out, dev("eth0", sum(v, g.vf)))
	}
	return append(out, g.extra...)
}

// moves adds packets of 100 bytes, received and sent in equal numbers.
func (c *counts) moves(n uint64) { *c = sum(*c, counts{n, n, 100 * n, 100 * n}) }

// The VF's figure is correct whatever the guest calls its interfaces, however the load is divided between the two paths, and whenever the
// host reads its counters.
func TestPathFindsTheVF(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := fakeGuest{bond: rapid.Bool().Draw(t, "bond")}
		if !g.bond && rapid.Bool().Draw(t, "vlan") {
			g.extra = []guest.Counters{dev("eth0.7", counts{})}
		}
		var (
			l          vfPath
			tap        counts
			now        = epoch
			onVF       = rapid.SampledFrom([]uint64{0, 5, 95, 100}).Draw(t, "percent on VF")
			perMS      = rapid.Uint64Range(0, 1000).Draw(t, "packets/ms")
			lag        = rapid.Uint64Range(0, 200).Draw(t, "queued in rings")
			vfAt       time.Time
			vfLast     float64
			tapSamples = func() sample { return sample{now, 1, tap} }
		)
		advance := func(ms int) {
			now = now.Add(time.Duration(ms) * time.Millisecond)
			n := perMS * uint64(ms)
			g.vf.moves(n * onVF / 100)
			g.virtio.moves(n * (100 - onVF) / 100)
			tap = g.virtio
			tap.rxPackets += lag
		}
		for i := range 6 {
			advance(rapid.IntRange(0, 1000).Draw(t, "after a tick"))
			before := tapSamples()
			advance(rapid.IntRange(0, 1000).Draw(t, "until asked"))
			a := answer{before: before, at: now, devs: g.devs()}
			vf := float64(g.vf.rxPackets)
			advance(rapid.IntRange(0, 1000).Draw(t, "until a tick"))
			a.after = tapSamples()
			if !l.take(a, mac(1), testGaps, limitOf(0, 1)) {
				t.Fatalf("answer %d not believed: %s", i, l.out.Note)
			}
			if dt := a.at.Sub(vfAt).Seconds(); i > 0 && dt >= 0.05 {
				want := (vf - vfLast) / dt
				if got := l.out; !got.Known || got.Proof != model.ProofGuest || math.Abs(got.RxPPS-want) > 1e-6*want+0.01*float64(perMS)*1000 {
					t.Fatalf("answer %d: got %+v, want %v packets/s", i, got, want)
				}
			}
			if i == 0 || a.at.Sub(vfAt) >= 50*time.Millisecond {
				vfAt, vfLast = a.at, vf
			}
			advance(rapid.IntRange(0, 3000).Draw(t, "pause"))
		}
	})
}

func TestPath(t *testing.T) {
	steady := func(g *fakeGuest) { g.vf.moves(5000); g.virtio.moves(100) }
	for _, c := range []struct {
		name  string
		guest fakeGuest
		then  func(*fakeGuest)
		err   error
		want  string // of the next answer
		ok    bool
	}{
		{name: "honest", then: steady, want: "1000 by guest: ", ok: true},
		{name: "bond", guest: fakeGuest{bond: true}, then: steady, want: "1000 by guest: ", ok: true},
		{name: "idle", then: func(*fakeGuest) {}, want: "0 by guest: ", ok: true},
		{
			name: "no driver", guest: fakeGuest{plain: true, bond: true}, then: steady, ok: true,
			want: "unknown: the guest shows no second interface with the MAC of its virtio NIC",
		},
		{
			name: "boasts on virtio", then: func(g *fakeGuest) { steady(g); g.lie = 1e6 },
			want: "unknown: not believed: the guest's figures for its virtio NIC contradict the tap's counters",
		},
		{
			name: "hides virtio", then: func(g *fakeGuest) { steady(g); g.virtio.moves(900_000); g.lie = ^uint64(900_000) + 1 },
			want: "unknown: not believed: the guest's figures for its virtio NIC contradict the tap's counters",
		},
		{
			name: "more than the link", then: func(g *fakeGuest) { g.vf.moves(1e9) },
			want: "unknown: not believed: the guest says its VF carried more than the link can",
		},
		{
			name: "more than any link", then: func(g *fakeGuest) { g.vf.moves(1e14) }, ok: true,
			want: "unknown: guest interface enp2s0: the counters jumped by more than the link carries",
		},
		{
			name: "rebooted", then: func(g *fakeGuest) { g.vf, g.virtio = counts{}, counts{} }, ok: true,
			want: "unknown: guest interface enp2s0: the counters went back",
		},
		{
			name: "VF came late", guest: fakeGuest{plain: true}, then: func(g *fakeGuest) { g.plain = false }, ok: true,
			want: "unknown: guest interface enp2s0: first sample",
		},
		{
			name: "says a name twice", then: func(g *fakeGuest) { steady(g); g.extra = []guest.Counters{dev("enp2s0", counts{rxPackets: 7})} },
			want: "1000 by guest: ", ok: true,
		},
		{
			name: "silent", then: steady, err: context.DeadlineExceeded,
			want: "1000 by guest: the guest agent does not answer: context deadline exceeded",
		},
		{
			name: "nonsense", then: steady, err: fmt.Errorf("%w: too long", guest.ErrAnswer),
			want: "unknown: the guest agent does not answer: the guest agent's answer is not usable: too long",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l vfPath
			g := c.guest
			g.vf.moves(10)
			g.virtio.moves(10)
			tap := counts{}
			now := epoch
			ok := false
			say := func(err error) {
				now = now.Add(4 * time.Second)
				tap = g.virtio
				before := sample{now, 1, tap}
				now = now.Add(time.Second)
				ok = l.take(answer{before: before, after: sample{now, 1, tap}, at: now, devs: g.devs(), err: err}, mac(1), testGaps, tenGig)
			}
			say(nil)
			steady(&g)
			say(nil)
			c.then(&g)
			say(c.err)
			if got := describe(l.figure(now, time.Minute)); got != c.want || ok != c.ok {
				t.Errorf("got %q (%v), want %q (%v)", got, ok, c.want, c.ok)
			}
			if refused := strings.Contains(c.want, "not believed"); (l.out.Denied >= 1) != refused {
				t.Errorf("denies %v packets/s", l.out.Denied)
			}
		})
	}
}

func describe(t model.Traffic) string {
	if !t.Known {
		return "unknown: " + t.Note
	}
	return fmt.Sprintf("%.0f by %s: %s", t.RxPPS, t.Proof, t.Note)
}

// Whatever a guest answers, its figure is finite, not negative and within its link's capacity.
func TestPathNeverAbsurd(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		var l vfPath
		now := epoch
		for range rapid.IntRange(1, 12).Draw(t, "answers") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 20e9).Draw(t, "dt")))
			u := rapid.Uint64()
			if rapid.Bool().Draw(t, "small") {
				u = rapid.Uint64Range(0, 1e7)
			}
			a := answer{at: now, before: sample{now, 1, counts{u.Draw(t, "tap"), 0, 0, 0}}, after: sample{now.Add(time.Second), 1, counts{}}}
			for range rapid.IntRange(0, 5).Draw(t, "devs") {
				a.devs = append(a.devs, dev(rapid.SampledFrom(names).Draw(t, "name"),
					counts{u.Draw(t, "rp"), u.Draw(t, "tp"), u.Draw(t, "rb"), u.Draw(t, "tb")}))
			}
			if rapid.IntRange(0, 5).Draw(t, "err") == 0 {
				a.err = errors.New("no")
			}
			l.take(a, mac(1), testGaps, tenGig)
			f := l.figure(now, 10*time.Second)
			for _, x := range []float64{f.RxPPS, f.TxPPS, f.RxBytes, f.TxBytes} {
				if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 || !f.Known && x != 0 {
					t.Fatalf("absurd: %+v", f)
				}
			}
			if tenGig.exceeded(f) || f.Proof != model.ProofNone && !f.Known {
				t.Fatalf("absurd: %+v", f)
			}
		}
	})
}

// guestWorld is a holder of a VF whose driver does not count.
func guestWorld() (*fakeWorld, *fakeGuest) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 4, mute).Driver = "igb"
	f.addVM(1, "br0")
	f.attach(1, addr(0))
	g := &fakeGuest{}
	f.inside["id-001"] = func(context.Context) ([]guest.Counters, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return g.devs(), nil
	}
	return f, g
}

func seconds(t *testing.T, s *Source, n int, each func()) model.Traffic {
	t.Helper()
	var out model.Traffic
	for range n {
		time.Sleep(time.Second / 2) // traffic between the readings, not at the same instant
		each()
		time.Sleep(time.Second / 2)
		synctest.Wait()
		out = snapshot(t, s).VMs[0].NICs[0].VFPath
	}
	return out
}

func TestGuestIsAsked(t *testing.T) {
	f, g := guestWorld()
	run(t, f, Options{Pool: poolAll}, func(t *testing.T, s *Source) {
		traffic := func() {
			f.set(func() { g.vf.moves(2000); g.virtio.moves(7) })
			f.tapMoves(1, 7, 7)
		}
		if got := snapshot(t, s).VMs[0].NICs[0].VFPath; got.Known {
			t.Errorf("before any answer: %+v", got)
		}
		got := seconds(t, s, 13, traffic)
		if !got.Known || got.Proof != model.ProofGuest || got.Source != model.SourceAgent || math.Abs(got.RxPPS-2000) > 1 {
			t.Errorf("got %+v, want 2000 packets/s, as the guest says", got)
		}
		if n := f.count("guest id-001"); n != 3 {
			t.Errorf("asked %d times in 13 s, want 3", n)
		}
		f.set(func() { g.lie = 1e7 })
		if got := seconds(t, s, 5, traffic); got.Proof != model.ProofGuest || math.Abs(got.RxPPS-2000) > 10 ||
			!strings.HasPrefix(got.Note, "not believed") {
			t.Errorf("of a liar: %+v, want what was last believed", got)
		}
		if got := seconds(t, s, 120, traffic); got.RxPPS != 0 || !strings.HasPrefix(got.Note, "not believed") {
			t.Errorf("of a liar, later: %+v, want nothing", got)
		}
		f.set(func() { f.dom(1).Hostdevs = nil })
		snapshot(t, s)
		synctest.Wait()
		n := f.count("guest id-001")
		seconds(t, s, 30, traffic)
		if more := f.count("guest id-001") - n; more != 0 {
			t.Errorf("asked %d times after it gave up its VF", more)
		}
	})
}

// A guest that hangs loses its own figure and delays nobody.
func TestGuestHangs(t *testing.T) {
	f, g := guestWorld()
	f.addVM(2, "br0")
	f.attach(2, addr(1))
	f.dom(2).NICs[0].MAC = mac(1)
	well := f.inside["id-001"]
	f.inside["id-002"] = well
	run(t, f, Options{Pool: poolAll}, func(t *testing.T, s *Source) {
		traffic := func() { f.set(func() { g.vf.moves(2000) }) }
		snapshot(t, s)
		if got := seconds(t, s, 12, traffic); !got.Known {
			t.Fatalf("while it answers: %+v", got)
		}
		f.set(func() {
			f.inside["id-001"] = func(ctx context.Context) ([]guest.Counters, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		n := f.count("guest id-001")
		start := time.Now()
		got := seconds(t, s, 300, traffic)
		if took := time.Since(start); took != 300*time.Second {
			t.Errorf("300 Snapshots took %v longer than their ticks", took-300*time.Second)
		}
		want := "the guest agent does not answer: context deadline exceeded"
		if !got.Known || got.RxPPS != 0 || !strings.HasPrefix(got.Note, want) {
			t.Errorf("got %+v, want nothing: %s", got, want)
		}
		if asked := f.count("guest id-001") - n; asked < 4 || asked > 8 {
			t.Errorf("asked %d times in 300 s, want the pauses to double up to two minutes", asked)
		}
		if other := snapshot(t, s).VMs[1].NICs[0].VFPath; !other.Known {
			t.Errorf("the guest that answers: %+v", other)
		}
		f.set(func() { f.inside["id-001"] = well })
		// The last pause is two minutes; two answers give a figure.
		if got := seconds(t, s, 130, traffic); !got.Known {
			t.Errorf("after it answers again: %+v", got)
		}
	})
}

// A guest without a connected agent is not asked.
func TestGuestWithoutAgent(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f *fakeWorld, o *Options)
	}{
		{"no channel", func(f *fakeWorld, _ *Options) { f.dom(1).Ready = model.Unknown }},
		{"not up", func(f *fakeWorld, _ *Options) { f.dom(1).Ready = model.No }},
		{"paused", func(f *fakeWorld, _ *Options) {
			s := f.stats["id-001"]
			s.State = model.VMPaused
			f.stats["id-001"] = s
		}},
		{"switched off", func(_ *fakeWorld, o *Options) { o.AskEvery = -1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, _ := guestWorld()
			o := Options{Pool: poolAll, CPUEvery: -1}
			c.change(f, &o)
			run(t, f, o, func(t *testing.T, s *Source) {
				got := seconds(t, s, 10, func() {})
				if want := "driver igb does not count per VF, and no guest agent answers"; got.Known || got.Note != want {
					t.Errorf("got %+v, want unknown: %s", got, want)
				}
				if n := f.count("guest id-001"); n != 0 {
					t.Errorf("asked %d times", n)
				}
			})
		})
	}
}
