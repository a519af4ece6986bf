package fluid

import (
	"math"
	"math/rand/v2"
	"time"

	"sluice/internal/model"
)

// program is what the senders of a link do: honest ones, and attackers that follow a program, which may depend on what they get. Its
// JSON is what testdata/adversaries.json holds. Rates are in Gbit/s on a link whose speed is 40, durations in ms, unless said otherwise.
type program struct {
	Why       string     `json:"why,omitempty"`    // it was kept
	Period    int        `json:"period"`           // of the controller
	Carries   float64    `json:"carries"`          // part of its speed that the link carries
	Uneven    float64    `json:"uneven,omitempty"` // as in Run
	Seed      uint64     `json:"seed"`             // of the noise of readings and of all that is random in attackers
	Honest    []honest   `json:"honest"`           // those with a guarantee are judged
	Attackers []attacker `json:"attackers"`
}

// honest is a sender whose demand does not depend on what it gets.
type honest struct {
	Flows     float64 `json:"flows"`
	Guarantee float64 `json:"guarantee,omitempty"`
	Wants     float64 `json:"wants,omitempty"`  // 0: all that it can send
	OnOff     int     `json:"on_off,omitempty"` // it pauses for so long, then sends for as long; 0: it sends all the time
}

// attacker repeats its steps.
type attacker struct {
	Flows     float64 `json:"flows"`
	Guarantee float64 `json:"guarantee,omitempty"`
	Late      float64 `json:"late,omitempty"` // periods of the controller by which it is behind the others
	Steps     []step  `json:"steps"`
}

// step is a part of an attacker's cycle.
type step struct {
	For    float64 `json:"for"` // periods of the controller
	Send   string  `json:"send"`
	Level  float64 `json:"level,omitempty"`
	Jitter float64 `json:"jitter,omitempty"` // standard deviation of what it sends, relative, drawn anew in every period
}

// What an attacker sends in a step. Its limit is the one in force.
const (
	sendAll    = "all"    // all that it can
	sendNone   = "none"   // nothing
	sendRate   = "rate"   // Level of the link's speed
	sendLimit  = "limit"  // Level of its limit
	sendGot    = "got"    // Level of what it got on average when it last sent all that it could
	sendEbb    = "ebb"    // of its limit, changed by a factor of Level in each period
	sendRandom = "random" // between Level of its limit and all of it, drawn anew in every period
	sendDefy   = "defy"   // all while its limit is below the mean of the last second or so, otherwise Level of it
	sendYield  = "yield"  // Level of its limit while that is below the mean, otherwise all
)

var sends = []string{sendAll, sendNone, sendRate, sendLimit, sendGot, sendEbb, sendRandom, sendDefy, sendYield}

// mind is what an attacker remembers.
type mind struct {
	attacker
	period time.Duration
	r      *rand.Rand
	get    func() (limit, sent float64) // bits/s at present: its limit in force, and what got through in the step before

	tick           int     // periods since the start
	at, visit      int     // step, and how many were taken before it
	began          int     // tick in which it began
	chance, jitter float64 // drawn in this period
	mean           float64 // of its limit
	got            float64 // when it last sent all that it could
	sum            float64 // of what it got in this step,
	n              int     // and the number of points of the fluid in it
}

// demand is what the attacker would send at t, in bits/s. It is called for each point of the fluid.
func (m *mind) demand(t time.Duration) float64 {
	limit, sent := m.get()
	limit = min(limit, speed)
	m.follow(t, limit, sent)
	s := &m.Steps[m.at]
	bits := math.Inf(1)
	switch part := s.Level * limit; s.Send {
	case sendNone:
		return 0
	case sendRate:
		bits = s.Level * speed
	case sendLimit:
		bits = part
	case sendGot:
		bits = s.Level * m.got
	case sendEbb:
		bits = limit * math.Pow(s.Level, float64(m.tick-m.began))
	case sendRandom:
		bits = part + m.chance*(limit-part)
	case sendDefy, sendYield:
		if (limit < .99*m.mean) == (s.Send == sendYield) {
			bits = part
		}
	}
	return bits * m.jitter
}

// follow updates the memory.
func (m *mind) follow(t time.Duration, limit, sent float64) {
	if t == 0 {
		m.tick, m.visit, m.mean, m.got = -1, -1, limit, limit
	}
	m.mean += (limit - m.mean) * Step.Seconds()
	tick := int(t / m.period)
	at, visit := m.stepAt(t)
	if visit == m.visit {
		m.sum, m.n = m.sum+sent, m.n+1
	} else {
		if m.Steps[m.at].Send == sendAll && m.n > 0 {
			m.got = m.sum / float64(m.n)
		}
		m.at, m.began, m.sum, m.n = at, tick, 0, 0
	}
	if tick != m.tick || visit != m.visit {
		m.chance, m.jitter = m.r.Float64(), 1
		if j := m.Steps[at].Jitter; j > 0 {
			m.jitter = math.Exp(j * m.r.NormFloat64())
		}
	}
	m.tick, m.visit = tick, visit
}

// stepAt returns the step at t, and a number of its own for each time it is taken.
func (m *mind) stepAt(t time.Duration) (at, visit int) {
	cycle := 0.0
	for i := range m.Steps {
		cycle += m.Steps[i].For
	}
	rounds, left := math.Modf((float64(t)/float64(m.period) + m.Late) / cycle)
	left *= cycle
	for at = 0; at < len(m.Steps)-1 && left >= m.Steps[at].For; at++ {
		left -= m.Steps[at].For
	}
	return at, int(rounds)*len(m.Steps) + at
}

const (
	attackFor = 20 * time.Second
	healFor   = 10 * time.Second
	settled   = time.Second // after its first frame a sender is judged; for so long the link must be well to be healed
)

// run returns the program's Run under no Allocator yet. Without attack, honest senders that want all they can send take the attackers'
// place. Both leave after attackFor.
func (p *program) run(attack bool) *Run {
	period := time.Duration(p.Period) * time.Millisecond
	r := &Run{Noise: .02, Uneven: p.Uneven, Period: period, Delay: period / 10, Length: attackFor + healFor, Seed: p.Seed}
	var senders []Sender
	for i := range p.Honest {
		senders = append(senders, p.Honest[i].sender())
	}
	for i := range p.Attackers {
		a, at := &p.Attackers[i], len(senders)
		m := &mind{
			attacker: *a, period: period, r: rand.New(rand.NewPCG(p.Seed, uint64(i))),
			get: func() (limit, sent float64) { return r.now[at].Bits, r.sent[at] },
		}
		s := guaranteed(a.Guarantee, a.Flows, func(t time.Duration) float64 {
			switch {
			case t >= attackFor:
				return 0
			case !attack:
				return math.Inf(1)
			}
			return m.demand(t)
		})
		senders = append(senders, s)
	}
	r.Link = &Link{Speed: speed, Senders: senders, Capacity: func(time.Duration) float64 { return p.Carries * speed }}
	return r
}

// pause is how long it pauses, at the start and between frames.
func (h *honest) pause() time.Duration { return time.Duration(h.OnOff) * time.Millisecond }

func (h *honest) sender() Sender {
	wants, half := h.Wants*gbit, h.pause()
	if wants == 0 {
		wants = math.Inf(1)
	}
	return Sender{
		SLA: model.SLA{Guarantee: model.Rate{Bits: uint64(h.Guarantee * gbit)}}, Flows: h.Flows,
		Demand: func(t time.Duration) float64 {
			if half > 0 && t/half%2 == 0 {
				return 0
			}
			return wants
		},
	}
}
