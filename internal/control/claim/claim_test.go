package claim

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/model"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func load(pps float64) model.Traffic {
	return model.Traffic{RxPPS: pps / 2, TxPPS: pps / 2, RxBytes: pps * 50, TxBytes: pps * 50, Known: true}
}

func key(n int) Key { return Key{model.VMID(fmt.Sprint("vm", n)), "net0"} }

func rate(x float64) Figure { return Figure{x, true} }

// table is a PF with VMs, second by second.
type table struct {
	l   *Ledger
	now time.Time
}

func newTable() *table { return &table{New(), epoch} }

func (t *table) virtio(n int, pps float64, seconds int) {
	for range seconds {
		t.now = t.now.Add(time.Second)
		t.l.Saw(t.now, key(n), load(pps))
	}
}

func (t *table) judge(port Figure, hs ...Holder) []model.Traffic {
	t.now = t.now.Add(time.Second)
	return t.l.Judge(t.now, "pf0", port, hs)
}

// held counts the seconds in which the first VM was believed to move at least that much.
func (t *table) held(seconds int, least float64, port Figure, hs ...Holder) int {
	n := 0
	for range seconds {
		if packets(t.judge(port, hs...)[0]) >= least {
			n++
		}
	}
	return n
}

var nothing Figure

func TestTimeThatAClaimIsBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		port, irq Figure
		claim     float64
		want      float64 // seconds per second on virtio
	}{
		"nothing supports it":                {nothing, nothing, 100e3, 5},
		"room at the port, no interrupts":    {rate(100e3), rate(1), 100e3, 1},
		"no room at the port, interrupts":    {rate(0), rate(5e3), 100e3, 5},
		"no room at the port, no interrupts": {rate(0), rate(1), 100e3, 1},
		"the port alone":                     {rate(100e3), nothing, 100e3, 20},
		"interrupts alone":                   {nothing, rate(5e3), 100e3, 20},
		"both":                               {rate(100e3), rate(5e3), 100e3, 100},
		"both, a boast":                      {rate(100e3), rate(5e3), 14.88e6, 100},
	} {
		t.Run(name, func(t *testing.T) {
			tb := newTable()
			tb.virtio(1, 100e3, 30)
			n := tb.held(10_000, 50e3, c.port, Holder{Key: key(1), Claim: load(c.claim), Interrupts: c.irq})
			if want := 30 * c.want; float64(n) > want+2 || float64(n) < 0.75*want {
				t.Errorf("believed for %d s after 30 s on virtio, want %.0f", n, want)
			}
		})
	}
}

// A claim never counts for more than its proof and what the port carried beyond the other claims.
func TestBoastIsCut(t *testing.T) {
	tb := newTable()
	for range 60 {
		tb.virtio(1, 100e3, 1)
		tb.l.Saw(tb.now, key(2), load(100e3))
	}
	got := tb.judge(rate(100e3), Holder{Key: key(1), Claim: load(14.88e6), Interrupts: rate(2)},
		Holder{Key: key(2), Claim: load(100e3), Interrupts: rate(5e3)})
	if packets(got[0]) > 101e3 || got[0].Proof != model.ProofGuest || !strings.HasPrefix(got[0].Note, "reduced from 14880000 packets/s") ||
		math.Abs(got[0].Denied+packets(got[0])-14.88e6) > 1 {
		t.Errorf("the boaster: %+v", got[0])
	}
	if math.Abs(packets(got[1])-100e3) > 1 || got[1].Proof != model.ProofCorroborated || got[1].Note != "" || got[1].Denied != 0 {
		t.Errorf("the honest one: %+v", got[1])
	}
}

// An honest VM that moves more on its VF than virtio could is believed.
func TestHonestVMIsBelieved(t *testing.T) {
	tb := newTable()
	tb.virtio(1, 100e3, 300)
	n := tb.held(3600, 299e3, rate(300e3), Holder{Key: key(1), Claim: load(300e3), Interrupts: rate(8e3)})
	if n != 3600 {
		t.Errorf("believed for %d s of an hour", n)
	}
}

// Silence counts for less than a claim: what was last seen counts for half a minute, and soon fades.
func TestSilence(t *testing.T) {
	tb := newTable()
	tb.virtio(1, 100e3, 30)
	silent := model.Traffic{Note: "no answer"}
	if n := tb.held(10_000, 50e3, nothing, Holder{Key: key(1), Claim: silent}); n < 30 || n > 60 {
		t.Errorf("believed for %d s after 30 s on virtio, want half a minute and a little", n)
	}
	got := tb.judge(nothing, Holder{Key: key(1), Claim: silent})[0]
	if !got.Known || packets(got) != 0 || !strings.HasPrefix(got.Note, "no answer") {
		t.Errorf("after that: %+v", got)
	}
	tb.virtio(1, 100e3, 30)
	if got := packets(tb.judge(nothing, Holder{Key: key(1), Claim: silent, Virtio: 100e3})[0]); got != 0 {
		t.Errorf("a VF that the guest has yet to take up: %v packets/s beside those on virtio", got)
	}
	if got := packets(tb.judge(nothing, Holder{Key: key(1), Claim: silent})[0]); math.Abs(got-100e3) > 1000 {
		t.Errorf("once it has: %v packets/s, want what it moved on virtio", got)
	}
}

// A VM that had its VF before the ledger was started is unknown for a minute, or until it reports, and believed for a while.
func TestStart(t *testing.T) {
	tb := newTable()
	silent := Holder{Key: key(1), Claim: model.Traffic{Note: "no answer"}}
	for i := range 59 {
		if got := tb.judge(nothing, silent)[0]; got.Known {
			t.Fatalf("after %d s: %+v", i, got)
		}
	}
	if n := tb.held(10_000, 50e3, nothing, Holder{Key: key(1), Claim: load(100e3)}); math.Abs(float64(n)-StartCredit) > 2 {
		t.Errorf("believed for %d s, want %v", n, StartCredit)
	}
	tb = newTable()
	tb.held(62, 0, nothing, silent)
	if got := tb.judge(nothing, silent)[0]; !got.Known || packets(got) != 0 {
		t.Errorf("after a minute of silence: %+v", got)
	}
}

// Whatever the guests report and whatever interrupts they raise, alone or together, each is believed for at most the documented
// number of seconds per second on virtio, and what the witnesses support is at most what the port carried.
func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tb := newTable()
		const vms = 4
		var busy, free, peak [vms]float64
		for i := range vms {
			tb.l.Saw(tb.now, key(i), load(0))
		}
		hasPort, hasIRQ := rapid.Bool().Draw(t, "port"), rapid.Bool().Draw(t, "interrupts")
		cost := map[int]float64{0: 1, 1: CostOne, 2: CostBoth}[btoi(hasPort)+btoi(hasIRQ)]
		start := tb.now
		for range rapid.IntRange(1, 60).Draw(t, "phases") {
			onVF := rapid.SliceOfN(rapid.Bool(), vms, vms).Draw(t, "on VF")
			rates := rapid.SliceOfN(rapid.Float64Range(0, 1e6), vms, vms).Draw(t, "rates")
			port := Figure{rapid.Float64Range(0, 2e6).Draw(t, "port carries"), hasPort}
			for range rapid.IntRange(1, 200).Draw(t, "seconds") {
				now := tb.now.Add(time.Second)
				tb.now = now
				var hs []Holder
				var who []int
				for i := range vms {
					if !onVF[i] {
						tb.l.Saw(now, key(i), load(rates[i]))
						if rates[i] > 0 {
							busy[i]++
						}
						peak[i] = max(peak[i], rates[i])
						continue
					}
					h := Holder{Key: key(i), Claim: load(rates[i] * 20), Interrupts: Figure{1e6, hasIRQ}}
					hs, who = append(hs, h), append(who, i)
				}
				supported := 0.0
				for k, got := range tb.l.Judge(now, "pf0", port, hs) {
					pps := packets(got)
					if pps > 4*peak[who[k]]+1 {
						t.Fatalf("VM %d is believed to move %v packets/s, and never showed more than %v", who[k], pps, peak[who[k]])
					}
					if pps > 0.05*peak[who[k]] {
						free[who[k]] += cost
					}
					if got.Proof == model.ProofCorroborated {
						supported += pps
					}
				}
				if room := 1.25*2e6 + 2000; hasPort && supported > room+1e-3 { // the slack is for sums of floats
					t.Fatalf("%v packets/s corroborated of at most %v", supported, room)
				}
			}
		}
		for i := range vms {
			if free[i] > Earn*busy[i]+2 {
				t.Fatalf("VM %d was believed for %v s at full cost, and busy for %v s, in %v", i, free[i], busy[i], tb.now.Sub(start))
			}
		}
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The port's room goes to small claims first, and is never exceeded.
func TestLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOf(rapid.Float64Range(0, 100)).Draw(t, "claims")
		room := rapid.Float64Range(0, 300).Draw(t, "room")
		claims, total := make([]claim, len(sizes)), 0.0
		for i, x := range sizes {
			claims[i].supported = x
			total += x
		}
		l, got := level(claims, room), 0.0
		for _, x := range sizes {
			got += min(x, l)
		}
		if want := min(room, total); math.Abs(got-want) > 1e-6 {
			t.Fatalf("level %v shares out %v, want %v", l, got, want)
		}
	})
}

// Credit that was earned while nearly idle is worth nothing after a flood.
func TestIdlingEarnsNothing(t *testing.T) {
	tb := newTable()
	tb.virtio(1, 10, 3600)
	tb.virtio(1, 300e3, 10)
	if n := tb.held(10_000, 50e3, nothing, Holder{Key: key(1), Claim: load(300e3)}); n > 50 {
		t.Errorf("believed for %d s after 10 s on virtio, want at most 50", n)
	}
}

func TestForget(t *testing.T) {
	tb := newTable()
	tb.virtio(1, 1, 1)
	tb.virtio(2, 1, 1)
	tb.judge(rate(1))
	tb.l.Forget(func(k Key) bool { return k == key(2) }, func(string) bool { return false })
	if len(tb.l.accounts) != 1 || len(tb.l.ports) != 0 {
		t.Errorf("left: %d accounts, %d PFs", len(tb.l.accounts), len(tb.l.ports))
	}
}
