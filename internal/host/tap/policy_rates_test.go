package tap

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/host/bpf"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// bucket is a plain token bucket for frames of one size.
type bucket struct {
	rate, burst float64 // frames/s, frames
	level       float64 // frames let through whose tokens have not been refilled yet
	last        time.Time
}

func (b *bucket) passes(now time.Time) bool {
	b.level = max(0, b.level-b.rate*now.Sub(b.last).Seconds())
	b.last = now
	if b.level > b.burst {
		return false
	}
	b.level++
	return true
}

// flood is the result of sending frames without pause for a while.
type flood struct {
	passed   float64
	expected float64       // by a plain policer, however fast the machine could send
	took     time.Duration // from before the first drop to after the last, also if the machine paused this program in between
}

// floodFor sends at full speed and counts from one drop to another: at both the burst is used up, so what passed in between is
// what the limit allows. It reports false if the machine cannot send fast enough to exceed the limit.
func floodFor(d time.Duration, plain bucket, drops func() uint64, send func()) (f flood, exceeded bool) {
	sent := 0
	next := func() time.Time {
		send()
		sent++
		now := time.Now()
		if plain.passes(now) {
			f.expected++
		}
		return now
	}
	untilDrop := func() (from, to time.Time, dropped uint64, ok bool) { // the frame that was dropped was sent between from and to
		began := time.Now()
		from = began
		for before := drops(); from.Sub(began) < 3*time.Second; from = to {
			to = next()
			if dropped = drops(); dropped != before {
				return from, to, dropped, true
			}
		}
		return from, to, 0, false
	}
	began, _, first, ok := untilDrop()
	if !ok {
		return f, false
	}
	sent, f.expected, plain.level = 0, 0, plain.burst
	for next().Sub(began) < d {
	}
	_, ended, last, ok := untilDrop()
	f.took, f.passed = ended.Sub(began), float64(sent)-float64(last-first)
	return f, ok
}

// within lowers a limit to a third of what this machine can send at the moment, so that the limit is exceeded.
func within(limit model.Rate, size int, send func()) model.Rate {
	const frames = 2000
	began := time.Now()
	for range frames {
		send()
	}
	most := frames / time.Since(began).Seconds() / 3
	return model.Rate{
		Bits:    min(limit.Bits, uint64(most*float64(size+bpf.WireOverhead)*8)),
		Packets: min(limit.Packets, uint64(most)),
	}
}

// TestRates floods limited taps with real frames in both directions and counts what passes.
func TestRates(t *testing.T) {
	for _, c := range []struct {
		dir  int
		size int // of frames, without checksum
		rate model.Rate
		now  bool // the leased rate limits, below the contract
	}{
		{dirTx, 1514, model.Rate{Bits: 10e6}, false},
		{dirTx, 1514, model.Rate{Bits: 100e6}, true},
		{dirTx, 1514, model.Rate{Bits: 1e9}, false},
		{dirTx, 60, model.Rate{Bits: 100e6}, false},
		{dirTx, 60, model.Rate{Bits: 20e6}, true},
		{dirTx, 60, model.Rate{Packets: 1e3}, false},
		{dirTx, 60, model.Rate{Packets: 10e3}, true},
		{dirTx, 60, model.Rate{Packets: 60e3}, false},
		{dirTx, 300, model.Rate{Packets: 20e3, Bits: 1e9}, false},
		{dirTx, 1514, model.Rate{Packets: 20e3, Bits: 50e6}, true},
		{dirRx, 1514, model.Rate{Bits: 100e6}, false},
		{dirRx, 60, model.Rate{Bits: 100e6}, true},
		{dirRx, 60, model.Rate{Packets: 10e3}, false},
	} {
		t.Run(fmt.Sprint(dirNames[c.dir], " ", c.size, " bytes ", c.rate, " now ", c.now), func(t *testing.T) {
			h := newHost(t)
			kerneltest.NewBridge(t, "br0")
			ports := [2]*kerneltest.Port{dirTx: kerneltest.NewPort(t, "tap0", "br0"), dirRx: kerneltest.NewPort(t, "out0", "br0")}
			kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, ports[1-c.dir].Name))
			frame := append(kerneltest.Frame(kerneltest.Guest, kerneltest.Other, ""), make([]byte, c.size-60)...)
			send := func() { ports[c.dir].Send(t, frame) }
			bits := float64(c.size+bpf.WireOverhead) * 8
			var f flood
			var rate float64
			for tries, exceeded := 0, false; !exceeded; tries++ {
				if tries == 10 {
					t.Fatalf("the machine does not send %.0f frames/s for long enough", rate)
				}
				limit := within(c.rate, c.size, send)
				path := PathRates{Contract: limit}
				if c.now {
					path = PathRates{Now: limit, Contract: model.Rate{Bits: 100e9}}
				}
				_, err := h.UpdateTap(kerneltest.Soon(t), "tap0", func(p *Policy) {
					*[2]*PathRates{dirTx: &p.Tx, dirRx: &p.Rx}[c.dir] = path
				})
				kerneltest.Must(t, err)
				mem := h.taps.opened("tap0").mem
				drops := func() uint64 { return mem.word(wordMeters + c.dir*dirWords + wordDroppedPackets) }
				rate = float64(limit.Bits) / bits
				if p := float64(limit.Packets); rate == 0 || p > 0 && p < rate {
					rate = p
				}
				burst := contractBurst
				if c.now {
					burst = nowBurst
				}
				plain := bucket{rate: rate, burst: max(minBurst, rate*burst.Seconds())}
				f, exceeded = floodFor(200*time.Millisecond, plain, drops, send)
			}
			if most := rate*f.took.Seconds()*1.02 + 2; f.passed > most {
				t.Errorf("%.0f frames passed in %v, want at most %.0f", f.passed, f.took, most)
			}
			if least := f.expected*0.98 - 2; f.passed < least {
				t.Errorf("%.0f frames passed in %v, want at least %.0f", f.passed, f.took, least)
			}
		})
	}
}
