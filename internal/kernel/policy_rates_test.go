package kernel

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/kernel/kerneltest"
	"sluice/internal/model"
)

// flood is what came of sending frames without pause for a while.
type flood struct {
	sent, dropped uint64
	took          time.Duration
	stalled       time.Duration // of that, pauses in which a burst may have come and gone: the machine was busy with something else
}

// floodFor sends at full speed, and counts from one drop to another: at both the burst is used up,
// so that what passed in between is what the limit let through.
func floodFor(t *testing.T, d time.Duration, now bool, drops func() uint64, send func()) (f flood) {
	t.Helper()
	burst := contractBurst
	if now {
		burst = nowBurst
	}
	untilDrop := func() (at time.Time, n uint64) {
		for before, began := drops(), time.Now(); ; {
			if send(); time.Since(began) > 10*time.Second {
				t.Skip("this machine cannot send as fast as the limit")
			}
			f.sent++
			if n = drops(); n != before {
				return time.Now(), n
			}
		}
	}
	began, first := untilDrop()
	f.sent = 0
	for last := began; last.Sub(began) < d; {
		send()
		f.sent++
		now := time.Now()
		if gap := now.Sub(last); gap > burst*3/4 {
			f.stalled += gap
		}
		last = now
	}
	ended, last := untilDrop()
	f.took, f.dropped = ended.Sub(began), last-first
	return f
}

// wantRate checks how many frames a second passed.
func (f flood) wantRate(t *testing.T, rate float64) {
	t.Helper()
	passed := float64(f.sent - f.dropped)
	most, least := rate*f.took.Seconds()*1.02+2, rate*(f.took-f.stalled).Seconds()*0.98-2
	if passed > most || passed < least {
		t.Errorf("%.0f passed in %v (pauses of %v; %d sent), want %.0f to %.0f", passed, f.took, f.stalled, f.sent, least, most)
	}
}

// TestRates floods limited taps with real frames, in both directions, and counts what passes.
func TestRates(t *testing.T) {
	for _, c := range []struct {
		dir  int
		size int // of frames, without checksum
		rate model.Rate
		now  bool // what is allowed now bounds, below a contract
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
			must(t, h.PinFDB(soon(t), guest, 0, ports[1-c.dir].Name))
			path := PathRates{Contract: c.rate}
			if c.now {
				path = PathRates{Now: c.rate, Contract: model.Rate{Bits: 100e9}}
			}
			_, err := h.UpdateTap(soon(t), "tap0", func(p *TapPolicy) {
				*[2]*PathRates{dirTx: &p.Tx, dirRx: &p.Rx}[c.dir] = path
			})
			must(t, err)
			mem := h.taps.opened("tap0").mem
			drops := func() uint64 { return mem.word(wordMeters + c.dir*dirWords + wordDroppedPackets) }
			frame := append(kerneltest.Frame(guest, other, ""), make([]byte, c.size-60)...)
			f := floodFor(t, 200*time.Millisecond, c.now, drops, func() { ports[c.dir].Send(t, frame) })
			bits := float64(c.size+wireOverhead) * 8
			rate := float64(c.rate.Bits) / bits
			if p := float64(c.rate.Packets); rate == 0 || p > 0 && p < rate {
				rate = p
			}
			f.wantRate(t, rate)
		})
	}
}
