package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
)

// Traffic makes NICs send what their VMs' Loads want to send. They share links and the host's packet rate as a fluid: on a full link
// each sender gets a share in proportion to its flows, up to what it wants and is allowed. All of a Load is sent; nothing is received.
type Traffic struct {
	Step    time.Duration // interval at which Loads are sampled; 0: 10 ms
	Packets float64       // packets/s that the host carries on virtio for all VMs; 0: any number
	Noise   float64       // standard deviation of a period's Reading, as a share of it
	Lost    float64       // share of the Readings that are lost
	Delay   time.Duration // until a Limit is in force
	Tree    bool          // the taps behind a PF share one HTB tree
	Rand    *rand.Rand    // for Noise and Lost

	// Hang, when set, returns how much longer than Delay an enforcer takes.
	Hang func(by string) time.Duration

	onFlow  func(d time.Duration)
	last    time.Time
	flows   []flow
	held    map[place]*held
	sharing sharing
}

// flow is what a NIC sends on the path that its guest uses. Rates are in bits/s on the wire.
type flow struct {
	nic    *NIC
	pf     *PF
	want   float64
	size   float64 // bits of a packet on the wire
	weight float64
	most   float64 // allowed
	cap    float64 // wanted and allowed
	rate   float64
	short  bool // the host carries fewer of its packets than the link
}

// sharing divides an amount among flows.
type sharing struct {
	of                []*flow
	weight, want, got []float64
	fill              MaxMin
}

func (s *sharing) reset() *sharing {
	s.of, s.weight, s.want, s.got = s.of[:0], s.weight[:0], s.want[:0], s.got[:0]
	return s
}

func (s *sharing) add(f *flow, weight, want float64) {
	s.of, s.weight, s.want, s.got = append(s.of, f), append(s.weight, weight), append(s.want, want), append(s.got, 0)
}

// share returns what each flow gets of an amount.
func (s *sharing) share(amount float64) []float64 {
	s.fill.Share(amount, s.want, s.weight, s.got)
	return s.got
}

// counter counts what went over one path so far.
type counter struct{ bits, packets, seenBits, seenPackets float64 }

// Overhead is the bytes of a frame on the wire beyond its layer-2 bytes: preamble, gap and checksum.
const Overhead = 24

// StartTraffic makes NICs send as t says from now on.
func (w *World) StartTraffic(t *Traffic) {
	w.traffic = t
	t.last, t.held = w.Now, map[place]*held{}
	if t.Step == 0 {
		t.Step = 10 * time.Millisecond
	}
	var sample func() // every event updates the rates; this one ensures that there is one per Step
	sample = func() { w.At(w.Now.Add(t.Step), sample) }
	sample()
	w.share()
}

// pass lets traffic flow until the given time.
func (w *World) pass(until time.Time) {
	t := w.traffic
	d := until.Sub(t.last)
	if d <= 0 {
		return
	}
	t.last = until
	for i := range t.flows {
		f := &t.flows[i]
		bits := f.rate * d.Seconds()
		c := &f.nic.sent[f.nic.path()]
		noisy := bits
		if t.Noise > 0 {
			noisy = max(0, bits*(1+f.nic.noise))
		}
		packets := 0.0
		if f.size > 0 {
			packets = bits / f.size
			c.seenPackets += noisy / f.size
		}
		c.bits, c.packets, c.seenBits = c.bits+bits, c.packets+packets, c.seenBits+noisy
	}
	if t.onFlow != nil {
		t.onFlow(d)
	}
}

// share computes what every NIC sends from now on.
func (w *World) share() {
	t := w.traffic
	t.flows = t.flows[:0]
	for _, v := range w.vms {
		var pps, bytes float64
		if v.Load != nil && v.listens() {
			pps, bytes, _ = v.Load.At(w.Now)
		}
		for _, n := range v.NICs {
			npps, nbytes := n.moves(w, pps, bytes)
			t.flows = append(t.flows, w.flow(n, npps, nbytes))
		}
	}
	t.fill(w)
}

func (w *World) flow(n *NIC, pps, bytes float64) flow {
	f := flow{nic: n, pf: w.uplink(n), want: 8 * (bytes + Overhead*pps), weight: max(n.Flows, 1)}
	if pps > 0 {
		f.size = f.want / pps
	}
	n.want = f.want
	if f.pf == nil || !w.sends(n) {
		f.pf = nil
		return f
	}
	if pps == 0 && n.LimitShare > 0 {
		f.size = 8 * (1500 + Overhead)
		f.want = n.LimitShare * min(w.allowed(n, f.size), float64(f.pf.Speed))
		n.want = f.want
	}
	f.most = w.allowed(n, f.size)
	if n.Blast {
		f.weight = min(f.want, f.most)
	}
	return f
}

// uplink returns the PF whose link carries the NIC's frames.
func (w *World) uplink(n *NIC) *PF {
	if n.open {
		return w.pf(n.hasVF.PF)
	}
	for _, p := range w.pfs {
		if p.Network == n.Net && p.LinkUp {
			return p
		}
	}
	return nil
}

// Capacity returns what the PF's link really carries, in bits/s.
func (p *PF) Capacity() float64 {
	if p.Carries > 0 {
		return p.Carries
	}
	return float64(p.Speed)
}

// fill shares the links, then the host's packet rate among what the links let through. If that limits some senders, it shares both again,
// so that others can use what these leave of the links.
func (t *Traffic) fill(w *World) {
	for i := range t.flows {
		f := &t.flows[i]
		f.rate = min(f.want, f.most)
	}
	t.trees(w)
	for i := range t.flows {
		t.flows[i].cap = t.flows[i].rate
	}
	t.links(w)
	if t.Packets > 0 && t.packets() {
		for i := range t.flows {
			if f := &t.flows[i]; !f.short {
				f.rate = f.cap
			}
		}
		t.links(w)
		t.packets()
	}
	for i := range t.flows {
		f := &t.flows[i]
		f.nic.link, f.nic.size, f.nic.rate, f.nic.allowed = f.pf, f.size, f.rate, f.most
	}
}

// links limits the flows of each link to what it carries.
func (t *Traffic) links(w *World) {
	for _, p := range w.pfs {
		s := t.sharing.reset()
		for i := range t.flows {
			if f := &t.flows[i]; f.pf == p {
				s.add(f, f.weight, f.rate)
			}
		}
		for k, bits := range s.share(p.Capacity()) {
			s.of[k].rate = bits
		}
	}
}

// packets limits senders on virtio to the host's packet rate, says which of them are short, and reports whether there are any.
func (t *Traffic) packets() bool {
	s, sum := t.sharing.reset(), 0.0
	for i := range t.flows {
		if f := &t.flows[i]; f.pf != nil && !f.nic.open && f.size > 0 {
			weight := f.weight
			if f.nic.Blast {
				weight /= f.size
			}
			s.add(f, weight, f.rate/f.size)
			sum += f.rate / f.size
		}
	}
	if sum <= t.Packets {
		return false
	}
	for k, packets := range s.share(t.Packets) {
		if packets < s.want[k] {
			s.of[k].rate, s.of[k].short = packets*s.of[k].size, true
		}
	}
	return true
}

// OnFlow makes f called after each stretch of time with constant rates.
func (w *World) OnFlow(f func(d time.Duration)) { w.traffic.onFlow = f }

// Link returns the PF whose link carries what the NIC sends; nil while none does.
func (n *NIC) Link() *PF { return n.link }

// PacketBits returns the size of the NIC's packets, in bits on the wire; 0: it sends none.
func (n *NIC) PacketBits() float64 { return n.size }

// Sending returns what the NIC sends now, in bits/s on the wire.
func (n *NIC) Sending() float64 { return n.rate }

// Wants returns what the NIC would like to send, in bits/s on the wire.
func (n *NIC) Wants() float64 { return n.want }

// Allowed returns what the limits in force let the NIC send, in bits/s; +Inf: no limit.
func (n *NIC) Allowed() float64 { return n.allowed }

// path returns the index of the path on which the guest sends: 0 virtio, 1 the VF.
func (n *NIC) path() int {
	if n.open {
		return 1
	}
	return 0
}

// newCounters resets the VF's counters, as a plug does.
func (n *NIC) newCounters() { n.sent[1], n.device = counter{}, n.device+1 }

var paths = [2]model.Path{model.PathVirtio, model.PathVF}

// Readings returns the counters of all NICs, as the host reads them now.
func (w *World) Readings() []bandwidth.Reading {
	t := w.traffic
	var out []bandwidth.Reading
	for n := range w.nics() {
		if t.Noise > 0 {
			n.noise = t.Noise * t.Rand.NormFloat64()
		}
		if t.Lost > 0 && t.Rand.Float64() < t.Lost {
			continue
		}
		for i, p := range paths {
			if i == 1 && (n.hasVF == model.NoVF || n.VM.Blind || !w.counts(n.hasVF)) {
				continue
			}
			c := n.sent[i]
			packets := math.Floor(c.seenPackets)
			r := bandwidth.Reading{
				NIC: model.NICID{VM: n.VM.ID, NIC: n.Alias}, Path: p, At: w.Now, Proof: model.ProofKernel,
				TxPackets: uint64(packets), TxBytes: uint64(max(0, c.seenBits/8-Overhead*packets)),
			}
			if i == 1 {
				r.Device, r.Proof = n.device, model.ProofHardware
			}
			out = append(out, r)
		}
	}
	return out
}
