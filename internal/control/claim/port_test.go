package claim

import (
	"math"
	"math/rand/v2"
	"testing"

	"sluice/internal/model"
)

// shift is a PF with three VFs. A liar, which moves nothing on its VF, and an honest VM take turns on one of them.
type shift struct {
	*table
	liar     Holder
	honest   []Holder // the same VMs each time: two that stay, and the one that takes turns with the liar
	believed int      // seconds for which the liar was believed to move at least half of what it claims
}

const said = 70e3

func newShift() *shift {
	s := &shift{table: newTable(), liar: Holder{Key: key(0), Claim: load(said), Interrupts: rate(10e3)}}
	for i, pps := range []float64{65e3, 60e3, 55e3} {
		s.honest = append(s.honest, Holder{Key: key(i + 1), Claim: load(pps), Interrupts: rate(pps / 8)})
	}
	return s
}

// flood lets all VMs earn credit on virtio.
func (s *shift) flood(seconds int) {
	for range seconds {
		s.virtio(0, said, 1)
		for _, h := range s.honest {
			s.l.Saw(s.now, h.Key, h.Claim)
		}
	}
}

// play passes time with the liar, or else the honest VM, on the third VF.
func (s *shift) play(liar bool, seconds int) {
	holders := s.honest
	if liar {
		holders = []Holder{s.honest[0], s.honest[1], s.liar}
	}
	carried := 0.0
	for _, h := range holders {
		if h.Key != s.liar.Key {
			carried += packets(h.Claim)
		}
	}
	for range seconds {
		for i, got := range s.judge(rate(carried), holders...) {
			if holders[i].Key == s.liar.Key && packets(got) >= said/2 {
				s.believed++
			}
		}
		if !liar {
			s.l.Saw(s.now, s.liar.Key, load(said)) // it floods again
		}
	}
}

// A liar that forges interrupts and keeps earning credit is believed less and less, since the port carries no more when the liar
// has a VF.
func TestThePortFindsALiar(t *testing.T) {
	s := newShift()
	s.flood(120)
	turns := make([]int, 12)
	for i := range turns {
		s.play(false, 60)
		before := s.believed
		s.play(true, 600)
		turns[i] = s.believed - before
	}
	t.Log("believed for", turns, "s of 600")
	if last := turns[len(turns)-1]; last > 120 { // 60 s of floods earn 300 s of credit, and a second that the port does not confirm costs 5
		t.Errorf("after a dozen turns it is believed for %d s of 600, want at most 120", last)
	}
}

// A liar that becomes honest is believed again.
func TestALiarMayMendItsWays(t *testing.T) {
	s := newShift()
	s.flood(120)
	for range 12 {
		s.play(false, 60)
		s.play(true, 600)
	}
	s.play(false, 120)
	holders := []Holder{s.honest[0], s.honest[1], s.liar}
	for range 300 {
		s.judge(rate(said+65e3+60e3), holders...)
	}
	if a := s.l.accounts[key(0)]; a.share < shareTrue {
		t.Errorf("after 5 min of true claims %.2f of them is believed", a.share)
	}
}

// Noise, and late claims of bursty loads, make no VM doubted.
func TestLateClaimsAreNotDoubted(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 0))
		tb := newTable()
		const vms, late = 4, 5
		var now [vms]float64
		var left [vms]int
		var before [late][vms]float64
		for s := range 3600 {
			carried := 0.0
			hs := make([]Holder, vms)
			for i := range vms {
				if left[i]--; left[i] <= 0 {
					now[i], left[i] = 200e3*r.Float64()*float64(r.IntN(2)), 2+r.IntN(90)
				}
				carried += now[i] * (1 + 0.02*r.NormFloat64())
				hs[i] = Holder{Key: key(i), Claim: load(before[s%late][i]), Interrupts: rate(25e3)}
				before[s%late][i] = now[i]
			}
			tb.judge(rate(carried), hs...)
			for i := range vms {
				if share := tb.l.accounts[key(i)].share; share < shareTrue {
					t.Fatalf("seed %d: after %d s VM %d is believed %.2f of its claims", seed, s, i, share)
				}
			}
		}
	}
}

// A gap between two samples counts for a minute at most: time without samples earns no credit and costs none.
func TestLongGaps(t *testing.T) {
	tb := newTable()
	tb.virtio(1, 100e3, 20)
	before := tb.l.accounts[key(1)].credit
	tb.now = tb.now.Add(1000 * maxStep * 1e9)
	tb.l.Saw(tb.now, key(1), load(100e3))
	if got := tb.l.accounts[key(1)].credit - before; got > 300 || got < 290 {
		t.Errorf("a gap of %v s earns %v s of credit, want those of a minute, 300", 1000*maxStep, got)
	}
	tb.now = tb.now.Add(1000 * maxStep * 1e9)
	if got := tb.judge(nothing, Holder{Key: key(1), Claim: load(100e3)})[0]; packets(got) < 99e3 {
		t.Errorf("a gap on its VF costs more than a minute: %+v", got)
	}
}

// An interrupt accounts for 64 packets; the excess is not supported.
func TestPacketsOfAnInterrupt(t *testing.T) {
	for irq, proof := range map[float64]model.Proof{1600: model.ProofCorroborated, 1500: model.ProofGuest} { // 102,400 and 96,000 packets/s
		tb := newTable()
		tb.virtio(1, 100e3, 60)
		if got := tb.judge(rate(100e3), Holder{Key: key(1), Claim: load(100e3), Interrupts: rate(irq)})[0]; got.Proof != proof {
			t.Errorf("100,000 packets/s at %v interrupts/s: %v, want %v", irq, got.Proof, proof)
		}
	}
}

// No packet is longer than a frame can be, however many bytes the guest claims.
func TestBytesAreBoundedByFrames(t *testing.T) {
	tb := newTable()
	tb.virtio(1, 100e3, 60)
	boast := load(100e3)
	boast.RxBytes, boast.TxBytes = 1e12, 1e12
	got := tb.judge(rate(100e3), Holder{Key: key(1), Claim: boast, Interrupts: rate(5e3)})[0]
	if want := 50e3 * frameBytes; math.Abs(got.RxBytes-want) > 1 || math.Abs(got.TxBytes-want) > 1 {
		t.Errorf("%v and %v bytes/s in 50,000 packets/s, want %v", got.RxBytes, got.TxBytes, want)
	}
}

// A claim that costs more than the remaining credit is not believed for that sample, and uses up the credit.
func TestPriceAboveCredit(t *testing.T) {
	tb := newTable()
	tb.virtio(1, 100e3, 10) // 50 s of credit, less what a rising rate devalued
	a := tb.l.accounts[key(1)]
	if a.credit <= 0 || a.credit >= 50 {
		t.Fatalf("it has %v s of credit", a.credit)
	}
	tb.now = tb.now.Add(59e9)
	if got := tb.judge(nothing, Holder{Key: key(1), Claim: load(100e3)})[0]; packets(got) != 0 || a.credit != 0 {
		t.Errorf("a minute's claim for %v s of credit: %v packets/s believed, %v s left", 50, packets(got), a.credit)
	}
}
