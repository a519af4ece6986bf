package fluid

import (
	"math"
	"time"

	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// Sender is a VM that shares a Link.
type Sender struct {
	SLA    model.SLA
	Flows  float64                       // weight on a full link; 0: 1
	Demand func(t time.Duration) float64 // what it would send at t, bits/s; called with rising t
	Most   float64                       // what it can send alone, bits/s; 0: no bound
	Frame  float64                       // bits per packet on the wire; 0: 12304, full Ethernet frames
}

const fullFrame = 8 * (1514 + 24)

// frame returns the bits per packet.
func (s *Sender) frame() float64 {
	if s.Frame > 0 {
		return s.Frame
	}
	return fullFrame
}

// wants returns what the Sender would send at t alone on the link.
func (s *Sender) wants(t time.Duration) float64 {
	d := s.Demand(t)
	if s.Most > 0 {
		d = min(d, s.Most)
	}
	return d
}

// Link is shared work-conservingly, in proportion to flows.
type Link struct {
	Speed    float64                       // bits/s, as controllers see it
	Capacity func(t time.Duration) float64 // what it really carries; nil: Speed
	Packets  float64                       // packets/s that the host carries; 0: no bound
	Senders  []Sender

	want, weight, most, part, packets []float64
	fill                              sim.MaxMin
}

// At returns the Link's real capacity.
func (l *Link) At(t time.Duration) float64 {
	if l.Capacity == nil {
		return l.Speed
	}
	return l.Capacity(t)
}

// Carry fills sent with what each Sender sends at t, given what it wants and what it is allowed, in bits/s. uneven scales each
// Sender's flows for a moment, as a full queue does; nil: no change.
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

// capPackets lowers bits to what the host's packet rate allows, shared by weight.
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

// Ideal computes what a perfect allocator would give that knows all demands at t, in bits/s. entitled is the part of its guarantee
// that each Sender asks for, the highest class first where capacity does not suffice; ideal adds the weighted max-min share of the rest.
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

// inf maps a limit of 0, which means none, to +Inf.
func inf(limit float64) float64 {
	if limit == 0 {
		return math.Inf(1)
	}
	return limit
}
