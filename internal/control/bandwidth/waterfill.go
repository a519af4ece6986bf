package bandwidth

import (
	"math"
	"time"

	"sluice/internal/model"
)

// waterfill is the default Allocator: guarantees first, by class, then the rest of the link max-min fairly by weight
// (water-filling). The steps of a tick:
//
//	estimate  the demand of each sender, from its reading and the limit in force then
//	lack      what guaranteed senders miss of what they are promised, or are known to want
//	trial     whether the link holds them down: the only reason to take it for less
//	rise      whether it carries more than it was last taken for
//	divide    99.5 % of that, by demands: never below a guarantee, with room to grow, and unchanged where little would change
//
// Where the host's packets/s are known they are divided in the same way, before the bits. Without guarantees and weights on the
// link only the SLAs' own limits apply, unless the Link is Bound. docs/appendix/waterfill.md derives it.
type waterfill struct {
	ids      []model.NICID
	capacity capacity
	bits     resource
	packets  resource
}

func (w *waterfill) Capacity() float64 { return w.capacity.taken() }

func (w *waterfill) Allocate(now time.Time, link Link, senders []Sender, out []Allowance) {
	w.follow(senders)
	w.take(link, senders, out)
	packets := w.sharePackets(now, link, senders)
	bits := w.shareBits(now, link, senders)
	for i := range senders {
		out[i] = limitOf(&senders[i].SLA)
		if packets {
			out[i].Packets = w.packets.limits[i]
		}
		if bits {
			out[i].Bits = w.bits.limits[i]
		}
	}
}

// allocatePackets is Allocate for packets/s alone, and reports whether there is anything to divide.
func (w *waterfill) allocatePackets(now time.Time, link Link, senders []Sender, out []Allowance) bool {
	w.follow(senders)
	w.take(link, senders, out)
	if !w.sharePackets(now, link, senders) {
		return false
	}
	for i := range out {
		out[i].Packets = w.packets.limits[i]
	}
	return true
}

// take passes the senders to both resources; to packets/s only if the host's capacity is known.
func (w *waterfill) take(link Link, senders []Sender, out []Allowance) {
	bitsAlone := math.IsInf(link.Packets, 1)
	for i := range senders {
		s := &senders[i]
		limit := limitOf(&s.SLA)
		w.bits.usages[i] = usage{
			known: s.Known, sent: s.Bits, wants: s.Wants, guarantee: float64(s.SLA.Guarantee.Bits), limit: limit.Bits,
			weight: s.SLA.Share(), priority: s.SLA.Priority,
		}
		if w.bits.set(i, out[i].Bits); bitsAlone {
			continue
		}
		c := &w.packets.usages[i]
		*c = w.bits.usages[i]
		c.known, c.wants = s.Known, 0
		c.sent, c.guarantee, c.limit = s.Packets, float64(s.SLA.Guarantee.Packets), limit.Packets
		if c.guarantee == 0 {
			c.guarantee = w.bits.usages[i].guarantee / max(frame(s), promisedFrame)
		}
		w.packets.set(i, out[i].Packets)
	}
}

// sharePackets divides the host's packets/s if their number is known and some are guaranteed.
func (w *waterfill) sharePackets(now time.Time, link Link, senders []Sender) bool {
	if math.IsInf(link.Packets, 1) || !link.Bound && !w.packets.promises() {
		return false
	}
	k := w.packets.moment(now, link.Period, link.Packets)
	w.packets.estimate(&k)
	w.packets.divide(&k)
	for i := range senders { // a sender held down in packets/s cannot use more bits than those carry
		if most := w.packets.limits[i]; senders[i].Packets >= bound*most {
			w.bits.usages[i].limit = min(w.bits.usages[i].limit, most*frame(&senders[i]))
		}
	}
	return true
}

// shareBits divides the link if a part of it is guaranteed, or weights differ.
func (w *waterfill) shareBits(now time.Time, link Link, senders []Sender) bool {
	w.capacity.begin(link.Speed)
	w.bits.proven = w.capacity.proven.bits
	k := w.bits.moment(now, link.Period, w.capacity.hat)
	k.trial = w.capacity.trial.underWay()
	w.bits.estimate(&k)
	if link.Moving || link.Uncontrolled && k.trial != nil {
		w.capacity.rest()
	} else {
		w.learn(&k, &link)
	}
	k.trial = w.capacity.trial.underWay()
	k.capacity, k.promise, k.probing = w.capacity.hat, w.capacity.promise(w.bits.guaranteed()), w.capacity.probe != idle
	if !link.Bound && !w.bits.promises() && !hasWeights(senders) {
		return false
	}
	w.bits.divide(&k)
	return true
}

// follow keeps the state of senders that remain.
func (w *waterfill) follow(senders []Sender) {
	same := len(w.ids) == len(senders)
	for i := 0; same && i < len(senders); i++ {
		same = w.ids[i] == senders[i].ID
	}
	if same {
		return
	}
	from := make([]int, len(senders)) // index in the old list; -1: new
	old := 0
	for i := range senders {
		for old < len(w.ids) && w.ids[old].Compare(senders[i].ID) < 0 {
			old++
		}
		from[i] = -1
		if old < len(w.ids) && w.ids[old] == senders[i].ID {
			from[i] = old
		}
	}
	w.ids = make([]model.NICID, len(senders))
	for i := range senders {
		w.ids[i] = senders[i].ID
	}
	w.bits.follow(from)
	w.packets.follow(from)
}

const (
	promisedFrame = 8 * 512                // bits: least packet for which a guarantee in bits/s holds; smaller ones need one in packets/s
	fullFrame     = 8 * (1514 + wireBytes) // bits: assumed frame of a sender whose frames are unknown
)

// frame is the size of a sender's packets in bits.
func frame(s *Sender) float64 {
	if s.Packets < 1 || s.Bits < 1 {
		return fullFrame
	}
	return s.Bits / s.Packets
}

// hasWeights reports whether a VM has a weight other than 1. A group's weight is only the number of its members.
func hasWeights(senders []Sender) bool {
	for i := range senders {
		if senders[i].ID.VM != "" && senders[i].SLA.Share() != 1 {
			return true
		}
	}
	return false
}
