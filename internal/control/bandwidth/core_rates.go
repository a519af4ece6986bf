package bandwidth

import (
	"math"
	"time"

	"sluice/internal/model"
)

// Bytes of a frame on the wire beyond its layer-2 bytes: preamble, start delimiter, checksum and gap.
const wireBytes = 24

// TCP segments a large send into frames of fullSize, of which headerBytes are Ethernet, IP and TCP with timestamps.
const (
	fullSize    = 1514
	headerBytes = 66
)

// blindAfter is the number of periods without a reading after which a NIC is unknown: a single one may be lost.
const blindAfter = 3

// wireBits are the bits on the wire of that many bytes in that many packets.
func wireBits(bytes, packets float64) float64 { return 8 * (bytes + wireBytes*packets) }

// pathCount derives rates from the counters of a path.
type pathCount struct {
	last     Reading
	tx, rx   model.RateReading
	read     bool // there was a reading in this period
	fresh    bool // this period's reading has no predecessor to compare with
	followed bool // there was a recent reading
}

// counts is the measured traffic of a NIC.
type counts struct {
	paths    [2]pathCount // by pathIndex
	sent     model.RateReading
	received model.RateReading
	known    bool      // it was counted in the last period
	seen     time.Time // when it was last counted
	busy     float64   // packets/s, smoothed, for dividing those of the VM
	peak     float64   // the recent maximum of bits/s sent
}

// take processes a reading. Counters that went back, or belong to another device, start afresh; a reading not newer than the
// last is ignored.
func (p *pathCount) take(r *Reading) {
	d := r.At.Sub(p.last.At)
	switch {
	case p.last.At.IsZero() || r.Device != p.last.Device || r.TxBytes < p.last.TxBytes || r.RxBytes < p.last.RxBytes ||
		r.TxPackets < p.last.TxPackets || r.RxPackets < p.last.RxPackets:
		if !p.last.At.IsZero() && d <= 0 {
			return
		}
		p.fresh, p.read = true, true
	case d <= 0:
		return
	default:
		s := d.Seconds()
		p.tx = rateReading(float64(r.TxBytes-p.last.TxBytes)/s, float64(r.TxPackets-p.last.TxPackets)/s, r.Proof)
		p.rx = rateReading(float64(r.RxBytes-p.last.RxBytes)/s, float64(r.RxPackets-p.last.RxPackets)/s, r.Proof)
		p.fresh, p.read = false, true
	}
	p.last, p.followed = *r, true
}

// rateReading makes a rate of bytes and packets per second. A NIC counts frames as they leave. A tap counts a send that the
// guest leaves to segmentation offload as one packet with one header, while a policer there counts frames: without correction a
// sender of bulk TCP reads 5 % below its limit and never appears to be held down. The number of frames is estimated by its
// minimum; frames of 9000 bytes are counted as several of 1500, 5 % too much.
//
// What a policer dropped is included, and Reading.Dropped, which has its count, is read at another instant. A sender with drops
// demands more anyway.
func rateReading(bytes, packets float64, proof model.Proof) model.RateReading {
	if more := (bytes - packets*fullSize) / (fullSize - headerBytes); proof == model.ProofKernel && more > 0 {
		bytes, packets = bytes+more*headerBytes, packets+more
	}
	return model.RateReading{Bits: wireBits(bytes, packets), Packets: packets, Proof: proof}
}

// measure computes the rates of a period's readings.
func (c *Core) measure(now time.Time, readings []Reading) {
	for _, n := range c.nics {
		n.paths[0].read, n.paths[1].read = false, false
	}
	for i := range readings {
		r := &readings[i]
		if r.NIC.VM == "" {
			if l := c.link(r.NIC.NIC); l != nil {
				l.port.take(r)
			}
		} else if n := c.byID[r.NIC]; n != nil {
			n.paths[pathIndex(r.Path)].take(r)
		}
	}
	blind, decay := blindAfter*c.opts.Period, math.Exp(-float64(c.period)/float64(peakMemory))
	for _, n := range c.nics {
		n.measure(now, blind, decay)
	}
	for _, v := range c.vpfs {
		v.measure(now, decay)
	}
}

// measure adds up the NIC's paths. A path without a reading in this period keeps its last rate for a while; one whose counters
// start afresh must not make the NIC look idle.
func (n *nic) measure(now time.Time, blind time.Duration, decay float64) {
	sum, in := model.RateReading{Proof: model.ProofHardware}, model.RateReading{Proof: model.ProofHardware}
	read, fresh := false, false
	var stale model.RateReading // of a path without a reading: the guest may have switched to the other
	for i := range n.paths {
		p := &n.paths[i]
		if p.followed && !p.read && now.Sub(p.last.At) > blind {
			p.followed, p.tx, p.rx = false, model.RateReading{}, model.RateReading{}
		}
		if p.followed && !p.read && p.tx.Bits > stale.Bits {
			stale = p.tx
		} else if p.followed && p.read {
			sum, in = plus(sum, p.tx), plus(in, p.rx)
		}
		if p.followed {
			read, fresh = read || p.read, fresh || p.fresh
		}
	}
	ok := true
	if n.vf != model.NoVF && !n.paths[1].followed { // there are no counters of the VF
		ok = n.claimed.Known
		if c := rateReading(n.claimed.TxBytes, n.claimed.TxPPS, n.claimed.Proof); c.Bits > stale.Bits {
			stale = c
		}
		in = plus(in, rateReading(n.claimed.RxBytes, n.claimed.RxPPS, n.claimed.Proof))
	}
	n.left = n.vf != model.NoVF && !n.paths[1].read && sum.Bits > stale.Bits/2 && sum.Bits > 0
	if stale.Bits > sum.Bits {
		sum = stale
	}
	n.known = read && ok
	if fresh {
		sum.Bits, sum.Packets = max(sum.Bits, n.sent.Bits), max(sum.Packets, n.sent.Packets)
	}
	if read || ok && !n.paths[0].followed && !n.paths[1].followed {
		n.sent, n.received = sum, in
	}
	n.remember(now, decay)
}

// remember updates the smoothed values.
func (n *nic) remember(now time.Time, decay float64) {
	if n.known {
		n.seen = now
	}
	n.busy += (n.sent.Packets - n.busy) * packetMemory
	if !n.squeezed { // its demand is not visible
		n.peak *= decay
	}
	n.peak = max(n.sent.Bits, n.peak)
}

// plus adds two rates; the weaker proof applies.
func plus(a, b model.RateReading) model.RateReading {
	if b.Proof.Weaker(a.Proof) {
		a.Proof = b.Proof
	}
	a.Bits, a.Packets = a.Bits+b.Bits, a.Packets+b.Packets
	return a
}

const (
	packetMemory = 0.2              // weight of a period in the mean that determines a NIC's part of its VM's packets/s
	peakMemory   = 10 * time.Second // time constant of the decay of a NIC's peak
)
