// Package fluid is a link and those who share it as fluids: no packets, no queues, no TCP. It is
// where allocators are compared and tuned before they meet a kernel. Everything hangs on the
// arguments and a seed.
package fluid

import (
	"math"
	"time"

	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
)

// Sender is a VM that shares a Link.
type Sender struct {
	SLA    model.SLA
	Flows  float64                       // shares of a full link go by these; 0: 1
	Demand func(t time.Duration) float64 // what it would send at t, bits/s; asked with rising t
	Most   float64                       // what it alone reaches, bits/s; 0: no bound
	Frame  float64                       // bits per packet on the wire; 0: 12304, full Ethernet frames
}

const fullFrame = 8 * (1514 + 24)

// frame is the bits of a packet of its.
func (s *Sender) frame() float64 {
	if s.Frame > 0 {
		return s.Frame
	}
	return fullFrame
}

// wants is what it would send at t with no one else there.
func (s *Sender) wants(t time.Duration) float64 {
	d := s.Demand(t)
	if s.Most > 0 {
		d = min(d, s.Most)
	}
	return d
}

// Link is shared work-conservingly, in proportion to flows.
type Link struct {
	Speed    float64                       // bits/s, what controllers are told
	Capacity func(t time.Duration) float64 // what it truly carries; nil: Speed
	Packets  float64                       // packets/s that the host carries; 0: no bound
	Senders  []Sender

	want, weight, most, part, packets []float64
	fill                              Filler
}

// At is the Link's true capacity.
func (l *Link) At(t time.Duration) float64 {
	if l.Capacity == nil {
		return l.Speed
	}
	return l.Capacity(t)
}

// Carry fills sent with what each Sender sends at t, bits/s, who would send want and is allowed so much. uneven
// stretches each one's flows for a moment, as a full queue does; nil: all alike.
func (l *Link) Carry(t time.Duration, want []float64, allowed []bandwidth.Allowance, uneven, sent []float64) {
	l.resize()
	for i := range l.Senders {
		s := &l.Senders[i]
		l.most[i] = min(want[i], allowed[i].Bits, allowed[i].Packets*s.frame())
		l.weight[i] = max(s.Flows, 1)
		if uneven != nil {
			l.weight[i] *= uneven[i]
		}
	}
	l.capPackets(l.most, l.weight)
	l.fill.Share(l.At(t), l.most, l.weight, sent)
}

// capPackets lowers bits to what the host's packets/s leave room for, shared by weight.
func (l *Link) capPackets(bits, weight []float64) {
	if l.Packets == 0 {
		return
	}
	for i := range bits {
		l.packets[i] = bits[i] / l.Senders[i].frame()
	}
	l.fill.Share(l.Packets, l.packets, weight, l.part)
	for i := range bits {
		bits[i] = min(bits[i], l.part[i]*l.Senders[i].frame())
	}
}

// Ideal is what a perfect allocator would do that knows what each wants at t: entitled is the part of
// its guarantee that each asks for, the highest class first where that is more than there is, and ideal that and the
// weighted max-min share of the rest, bits/s.
func (l *Link) Ideal(t time.Duration, want, entitled, ideal []float64) {
	l.resize()
	for i := range l.Senders {
		s := &l.Senders[i]
		limit := inf(float64(s.SLA.Limit.Bits))
		l.want[i] = min(want[i], limit, inf(float64(s.SLA.Limit.Packets))*s.frame())
		l.weight[i] = s.SLA.Share()
	}
	l.capPackets(l.want, l.weight)
	l.entitle(l.At(t), entitled)
	left := l.At(t)
	for i := range entitled {
		left -= entitled[i]
		l.most[i] = l.want[i] - entitled[i]
	}
	l.fill.Share(max(0, left), l.most, l.weight, ideal)
	for i := range ideal {
		ideal[i] += entitled[i]
	}
}

// entitle shares the capacity among the guarantees, class by class.
func (l *Link) entitle(left float64, entitled []float64) {
	clear(entitled)
	for next := math.Inf(1); left > 0; {
		class := math.Inf(-1)
		for i := range l.Senders {
			if p := float64(l.Senders[i].SLA.Priority); p < next {
				class = max(class, p)
			}
		}
		if math.IsInf(class, -1) {
			return
		}
		for i := range l.Senders {
			s := &l.Senders[i].SLA
			l.most[i], l.packets[i] = 0, float64(s.Guarantee.Bits)
			if float64(s.Priority) == class {
				l.most[i] = min(l.want[i], l.packets[i])
			}
		}
		l.fill.Share(left, l.most, l.packets, l.part)
		for i := range entitled {
			entitled[i] += l.part[i]
			left -= l.part[i]
		}
		next = class
	}
}

func (l *Link) resize() {
	if n := len(l.Senders); len(l.want) != n {
		l.want, l.weight, l.most, l.part, l.packets = make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n),
			make([]float64, n)
	}
}

// inf is a limit of which 0 means none.
func inf(limit float64) float64 {
	if limit == 0 {
		return math.Inf(1)
	}
	return limit
}

// Filler shares an amount max-min fairly. The simple way, round by round: it is what others are checked against.
type Filler struct{ done []bool }

// Share gives each at most want, in proportion to weight, until nothing is left or nobody wants more.
func (f *Filler) Share(amount float64, want, weight, out []float64) {
	f.done = append(f.done[:0], make([]bool, len(want))...)
	clear(out)
	for {
		sum := 0.0
		for i := range want {
			if !f.done[i] {
				sum += weight[i]
			}
		}
		if sum == 0 {
			return
		}
		level, full := amount/sum, false
		for i := range want {
			if !f.done[i] && want[i] <= level*weight[i] {
				out[i], f.done[i], full = want[i], true, true
				amount -= want[i]
			}
		}
		if full {
			continue
		}
		for i := range want {
			if !f.done[i] {
				out[i] = max(0, level*weight[i])
			}
		}
		return
	}
}
