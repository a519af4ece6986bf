package fluid

import (
	"math"
	"math/rand/v2"
	"time"

	"sluice/internal/model"
)

// Scenario is a situation in which allocators are compared.
type Scenario struct {
	Name   string
	Text   string
	Length time.Duration
	Make   func(seed uint64) *Link
}

// speed is the link speed of the papers and of all scenarios.
const (
	speed = 40 * gbit
	gbit  = 1e9
)

// Scenarios returns DAQS's experiments and what they leave out: one or several guarantees that come and go, more guarantees than
// capacity, a link that carries less than its speed, guests that churn.
func Scenarios() []Scenario {
	return []Scenario{
		oneAgainstFive("a 25%", 10), oneAgainstFive("a 37.5%", 15), oneAgainstFive("a 50%", 20), oneAgainstFive("a 75%", 30),
		{"b", "a guarantee of 25 % on and off every 10 s", 60 * time.Second, fixed(guaranteed(10, 1, square(10*time.Second, 0)), bestEffort(5))},
		{"b2", "a guarantee of 50 % on and off every 2 s", 30 * time.Second, fixed(guaranteed(20, 1, square(2*time.Second, 0)), bestEffort(5))},
		{"c", "guarantees of 5, 8 and 12 that come and go against two best-effort VMs", 60 * time.Second, fixed(
			guaranteed(5, 1, square(10*time.Second, 0)), guaranteed(8, 1, square(7*time.Second, 2*time.Second)),
			guaranteed(12, 1, square(12*time.Second, 5*time.Second)), bestEffort(5), bestEffort(5))},
		{
			"d", "two guarantees, one VM over and one under", 30 * time.Second,
			fixed(guaranteed(10, 8, always), guaranteed(10, 1, always), bestEffort(5)),
		},
		{"e", "the capacity falls by 6 % in mid-run", 40 * time.Second, falling},
		{"f", "20 + 20 + 20 of 40 promised, in three classes", 30 * time.Second, overcommitted},
		{"g", "seven best-effort VMs of two flows, one by one", 40 * time.Second, oneByOne},
		{"h", "30 guests churning, five of them with guarantees of 4", 60 * time.Second, churning(30, 5, 4)},
		{"100", "100 VMs churning, eight of them with guarantees of 4", 60 * time.Second, churning(100, 8, 1.2)},
	}
}

func oneAgainstFive(name string, g float64) Scenario {
	s := guaranteed(g, 1, always)
	s.Most = 18.5 * gbit
	return Scenario{name, "one flow that alone reaches 46 % of the link against five", 20 * time.Second, fixed(s, bestEffort(5))}
}

func falling(uint64) *Link {
	l := fixed(guaranteed(20, 1, always), bestEffort(5), bestEffort(5))(0)
	l.Capacity = func(t time.Duration) float64 {
		if t > 15*time.Second {
			return 0.94 * speed
		}
		return speed
	}
	return l
}

func overcommitted(uint64) *Link {
	l := fixed(guaranteed(20, 1, always), guaranteed(20, 3, square(5*time.Second, 0)), guaranteed(20, 5, always))(0)
	for i := range l.Senders {
		l.Senders[i].SLA.Priority = len(l.Senders) - i
	}
	return l
}

func oneByOne(uint64) *Link {
	senders := []Sender{guaranteed(10, 1, always)}
	for i := range 7 {
		start := time.Duration(i+1) * 4 * time.Second
		s := bestEffort(2)
		s.Demand = func(t time.Duration) float64 {
			if t < start {
				return 0
			}
			return math.Inf(1)
		}
		senders = append(senders, s)
	}
	return fixed(senders...)(0)
}

// churning returns n VMs that come and go at random: those with guarantees of 4 Gbit/s send about 6 for 10 s, the others about level
// for 3 s of 9.
func churning(n, guarantees int, level float64) func(uint64) *Link {
	return func(seed uint64) *Link {
		l := &Link{Speed: speed}
		for i := range n {
			s := bestEffort(1 + float64(i*7%5))
			s.Demand = random(seed*1000+uint64(i), 3, 6, level*gbit)
			if i < guarantees {
				s = guaranteed(4, 1, random(seed*1000+uint64(i), 10, 10, 6*gbit))
			}
			l.Senders = append(l.Senders, s)
		}
		return l
	}
}

func fixed(senders ...Sender) func(uint64) *Link {
	return func(uint64) *Link { return &Link{Speed: speed, Senders: append([]Sender(nil), senders...)} }
}

func guaranteed(g, flows float64, demand func(time.Duration) float64) Sender {
	return Sender{SLA: model.SLA{Guarantee: model.Rate{Bits: uint64(g * gbit)}}, Flows: flows, Demand: demand}
}

func bestEffort(flows float64) Sender { return Sender{Flows: flows, Demand: always} }

func always(time.Duration) float64 { return math.Inf(1) }

// square alternates from start on: off for a half-period, then on for one.
func square(half, start time.Duration) func(time.Duration) float64 {
	return func(t time.Duration) float64 {
		if t < start || (t-start)/half%2 == 0 {
			return 0
		}
		return math.Inf(1)
	}
}

// random is on for on seconds and off for off seconds on average, each time at a new level around level.
func random(seed uint64, on, off, level float64) func(time.Duration) float64 {
	r := rand.New(rand.NewPCG(seed, 9))
	until, now := 0.0, 0.0
	is := r.IntN(2) == 0
	return func(t time.Duration) float64 {
		for t.Seconds() >= until {
			is = !is
			if is {
				until += on * r.ExpFloat64()
				now = level * (.5 + r.Float64())
			} else {
				until += off * r.ExpFloat64()
				now = 0
			}
		}
		return now
	}
}
