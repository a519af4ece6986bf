package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// unlimited is the demand of a guest that sends as fast as it can.
const unlimited = -1

// phase is a guest's demand from some time on, in bit/s on the wire: 0 nothing, -1 unlimited.
type phase struct {
	from time.Duration
	bits float64
}

// guest is a guest of a scenario. Rates are fractions of the link's.
type guest struct {
	guarantee float64
	priority  int // of its class: higher classes keep their guarantees first if the link is overcommitted
	flows     int
	demand    []phase
	to        int     // the receiving guest, counted from 1; 0: the sink, over the uplink
	attack    *attack // how it sends, if it is an attacker; to the score it demands all
}

// attack is what a guest does to look as if it wanted less than it does: again and again it sends all that it can for a time, and then a
// part of what it got.
type attack struct {
	late time.Duration // before its first full round it sends all that it can
	all  time.Duration
	less time.Duration
	part float64
}

// scenario defines the demand of each guest over time.
type scenario struct {
	name   string
	about  string
	guests []guest
	length time.Duration
	fall   time.Duration // when the link's capacity drops; 0: never
	falls  float64       // by which fraction of its speed it carries less then
	cold   float64       // by which fraction the link carries less than its speed from the start
	daqs   time.Duration // duration under DAQS, which converges more slowly; 0: the same
	named  bool          // it runs only if it is named, because it takes minutes
}

const always = 0

// want is a constant demand from the start.
func want(bits float64) []phase { return []phase{{always, bits}} }

// onOff is unlimited demand in the first of every two periods.
func onOff(every, length time.Duration) (out []phase) {
	for t, on := time.Duration(0), true; t < length; t, on = t+every, !on {
		p := phase{t, 0}
		if on {
			p.bits = unlimited
		}
		out = append(out, p)
	}
	return out
}

// between is unlimited demand from one time to another.
func between(from, to time.Duration) []phase {
	return []phase{{always, 0}, {from, unlimited}, {to, 0}}
}

// oneThread is what a single sender reaches in the experiments of DAQS: 18.5 of 40 Gbit/s.
const oneThread = .4625 * linkBits

const s = time.Second

// scenarios returns all scenarios, in the order in which they run.
func scenarios() []scenario {
	list := []scenario{
		oneAgainstFive("a25", .25), oneAgainstFive("a37.5", .375), oneAgainstFive("a50", .5), oneAgainstFive("a75", .75),
		sevenBestEffort("seven", 2*s, 0), sevenBestEffort("seven-published", 60*s, 60*s),
		{
			name: "on-off-10s", about: "guarantee of 25 % on and off every 10 s, against five flows", length: 26 * s,
			guests: []guest{{guarantee: .25, flows: 1, demand: onOff(10*s, 26*s)}, bestEffort(5)},
		},
		{
			name: "on-off-2s", about: "guarantee of 50 % on and off every 2 s, against five flows", length: 20 * s,
			guests: []guest{{guarantee: .5, flows: 1, demand: onOff(2*s, 20*s)}, bestEffort(5)},
		},
		{
			name: "three", about: "guarantees of 12.5, 20 and 30 % that come and go, against two of five flows each", length: 16 * s,
			guests: []guest{
				{guarantee: .125, flows: 1, demand: want(unlimited)},
				{guarantee: .2, flows: 1, demand: between(4*s, 12*s)},
				{guarantee: .3, flows: 1, demand: []phase{{always, unlimited}, {6 * s, 0}, {9 * s, unlimited}}},
				bestEffort(5), bestEffort(5),
			},
		},
		{
			name: "over-under", about: "two guarantees of 25 %: five flows that take more, one flow; against two flows", length: 10 * s,
			guests: []guest{
				{guarantee: .25, flows: 5, demand: want(unlimited)},
				{guarantee: .25, flows: 1, demand: want(unlimited)},
				bestEffort(2),
			},
		},
		{
			name: "fall", about: "guarantee of 75 % for one flow, against five; the link loses 6 % after 6 s", length: 14 * s,
			guests: []guest{{guarantee: .75, flows: 1, demand: want(unlimited)}, bestEffort(5)},
			fall:   6 * s, falls: .06,
		},
		{
			name: "fall-tight", about: "the same with a guarantee of 50 %, all of which and no more it wants", length: 14 * s,
			guests: []guest{{guarantee: .5, flows: 1, demand: want(.5 * linkBits)}, bestEffort(5)},
			fall:   6 * s, falls: .06,
		},
		{
			name: "fall-again", about: "the same on a link that carries 10 % less from the start, and another 10 % less after 6 s", length: 14 * s,
			guests: []guest{{guarantee: .5, flows: 1, demand: want(.5 * linkBits)}, bestEffort(5)},
			cold:   .1, fall: 6 * s, falls: .2,
		},
		{
			name: "over-committed", about: "three guarantees of 50 %, of three classes; the second pauses", length: 16 * s,
			guests: []guest{
				{guarantee: .5, priority: 2, flows: 1, demand: want(unlimited)},
				{guarantee: .5, priority: 1, flows: 2, demand: []phase{{always, unlimited}, {6 * s, 0}, {10 * s, unlimited}}},
				{guarantee: .5, priority: 0, flows: 5, demand: want(unlimited)},
			},
		},
		{
			name: "vm-to-vm", about: "guarantee of 50 % for one flow, against five; a third guest sends 60 Mbit/s to a fourth", length: 8 * s,
			guests: []guest{
				{guarantee: .5, flows: 1, demand: want(unlimited)},
				bestEffort(5),
				{flows: 2, demand: want(.6 * linkBits), to: 4},
				{flows: 1, demand: want(0)},
			},
		},
		churn(30, 20*s),
		jitter(20 * s), ramp(20 * s),
	}
	for _, less := range []float64{.01, .02, .05, .1, .2} {
		for _, g := range []float64{.25, .5} {
			list = append(list, cold(less, g, true), cold(less, g, false))
		}
	}
	return append(list, attacks()...)
}

// cold is a link that carries less than its speed from the first moment. bounded is a sender that alone reaches its guarantee and a
// little more of the link: 46 % with one of 25 %, 60 % with one of 50 %.
func cold(less, guarantee float64, bounded bool) scenario {
	sc := scenario{
		name:   fmt.Sprintf("cold-%.0f-%.0f", 100*less, 100*guarantee),
		about:  fmt.Sprintf("the link carries %.0f %% less from the start; guarantee of %.0f %% against five flows", 100*less, 100*guarantee),
		guests: []guest{{guarantee: guarantee, flows: 1, demand: want(unlimited)}, bestEffort(5)}, length: 9 * s, cold: less,
	}
	if bounded {
		sc.name += "-bounded"
		sc.guests[0].demand = want(oneThread)
		if guarantee > .3 {
			sc.guests[0].demand = want(.6 * linkBits)
		}
	}
	return sc
}

// jitter has guarantees that are asked for in bursts.
func jitter(length time.Duration) scenario {
	return scenario{
		name: "jitter", about: "guarantees of 30 and 20 % that wake every 0.8 and 1.2 s, against five flows", length: length,
		guests: []guest{
			{guarantee: .3, flows: 1, demand: onOff(400*time.Millisecond, length)},
			{guarantee: .2, flows: 1, demand: onOff(600*time.Millisecond, length)},
			bestEffort(5),
		},
	}
}

// ramp has a guarantee that is asked for little by little.
func ramp(length time.Duration) scenario {
	g := guest{guarantee: .8, flows: 1}
	for t := time.Duration(0); t < length; t += s {
		g.demand = append(g.demand, phase{t, .04 * (1 + t.Seconds()) * linkBits})
	}
	return scenario{
		name: "ramp", about: "guarantee of 80 %, of which 4 % of the link more is wanted every second, against five flows", length: length,
		guests: []guest{g, bestEffort(5)},
	}
}

// attacks has attackers beside an honest guest with a guarantee and one without, which always wants all.
func attacks() []scenario {
	const length = 12 * s
	made := func(name, about string, demand []phase, list ...attack) scenario {
		sc := scenario{
			name: name, about: "guarantee of 50 % for one flow, against three, and " + about, length: length,
			guests: []guest{{guarantee: .5, flows: 1, demand: demand}, bestEffort(3)},
		}
		for _, a := range list {
			sc.guests = append(sc.guests, guest{flows: 3, demand: want(unlimited), attack: &a})
		}
		return sc
	}
	half, fifth := 500*time.Millisecond, 200*time.Millisecond
	tight := made("attack-3-cold", "three that alternate with 75 to 90 % of what they get; the link carries 5 % less", want(.5*linkBits),
		attack{0, half, half, .75}, attack{0, half, half, .8}, attack{fifth, half, half, .9})
	tight.cold = .05
	return []scenario{
		made("attack-2", "two that together alternate between all and 80 % of what they get", want(unlimited),
			attack{0, half, half, .8}, attack{0, half, half, .8}),
		made("attack-3", "three that alternate with 75 to 90 %, each on its own; it pauses every 2 s", onOff(2*s, length),
			attack{0, half, half, .75}, attack{fifth, half, 2 * half, .8}, attack{3 * fifth, 2 * half, half, .9}),
		made("attack-4", "four that together alternate every 0.2 s with 85 %; it wants no more than its guarantee", want(.5*linkBits),
			attack{0, fifth, fifth, .85}, attack{0, fifth, fifth, .85}, attack{0, fifth, fifth, .85}, attack{0, fifth, fifth, .85}),
		tight,
	}
}

func bestEffort(flows int) guest { return guest{flows: flows, demand: want(unlimited)} }

func oneAgainstFive(name string, guarantee float64) scenario {
	return scenario{
		name: name, about: "one flow that alone reaches 46 % of the link, with a guarantee, against five", length: 8 * s, daqs: 30 * s,
		guests: []guest{{guarantee: guarantee, flows: 1, demand: want(oneThread)}, bestEffort(5)},
	}
}

// sevenBestEffort is DAQS's figure 4, at its own pace if a guest starts every minute, and faster than DAQS converges otherwise.
func sevenBestEffort(name string, every, first time.Duration) scenario {
	sc := scenario{
		name: name, length: 8 * every, named: every >= 60*s,
		about:  fmt.Sprintf("guarantee of 25 %% for one flow; seven best-effort guests of two flows start, one every %.0f s", every.Seconds()),
		guests: []guest{{guarantee: .25, flows: 1, demand: want(oneThread)}},
	}
	if sc.named {
		sc.about += "; only if named"
	}
	for i := range 7 {
		sc.guests = append(sc.guests, guest{flows: 2, demand: between(first+time.Duration(i)*every, sc.length)})
	}
	return sc
}

// churn has guests that come and go. Every fourth has a guarantee, in total 64 % of the link, against far more flows of the others.
func churn(n int, length time.Duration) scenario {
	sc := scenario{name: "churn", about: "30 guests that come and go, eight of them with a guarantee of 8 %", length: length}
	r := rand.New(rand.NewPCG(30, 1))
	for i := range n {
		g := guest{flows: 1 + r.IntN(4)}
		if i%4 == 0 {
			g.guarantee, g.flows = .08, 1
		}
		for t := time.Duration(0); t < length; {
			p := phase{from: t}
			switch r.IntN(3) {
			case 0:
				p.bits = unlimited
			case 1:
				p.bits = (.01 + .09*r.Float64()) * linkBits
			}
			g.demand = append(g.demand, p)
			t += time.Duration(1+r.IntN(20)) * 200 * time.Millisecond
		}
		sc.guests = append(sc.guests, g)
	}
	return sc
}

// at returns a guest's demand at a time, in bit/s.
func (g *guest) at(t time.Duration) float64 {
	bits := g.demand[0].bits
	for _, p := range g.demand {
		if p.from <= t {
			bits = p.bits
		}
	}
	if bits == unlimited {
		return math.Inf(1)
	}
	return bits
}

// capacity returns the link's capacity at a time.
func (sc *scenario) capacity(t time.Duration) float64 {
	if sc.fall > 0 && t >= sc.fall {
		return linkBits * (1 - sc.falls)
	}
	return linkBits * (1 - sc.cold)
}

// ideal returns what all guests together could send at a time.
func (sc *scenario) ideal(t time.Duration) float64 {
	sum := 0.0
	for i := range sc.guests {
		if sc.guests[i].to == 0 {
			sum += sc.guests[i].at(t)
		}
	}
	return min(sum, sc.capacity(t))
}

// entitled fills in what each guest must get of its guarantee at a time: its demand up to the guarantee and, if the total exceeds the
// link's capacity, by class and in proportion within a class.
func (sc *scenario) entitled(t time.Duration, out []float64) {
	sc.entitledOf(sc.capacity(t), t, out)
}

func (sc *scenario) entitledOf(left float64, t time.Duration, out []float64) {
	for _, class := range sc.priorities() {
		sum := 0.0
		for i := range sc.guests {
			if g := &sc.guests[i]; g.priority == class {
				out[i] = min(g.guarantee*linkBits, g.at(t))
				sum += out[i]
			}
		}
		if sum > left {
			for i := range sc.guests {
				if sc.guests[i].priority == class {
					out[i] *= left / sum
				}
			}
		}
		left -= min(sum, left)
	}
}

// priorities returns the priorities of the guests' classes, highest first.
func (sc *scenario) priorities() (out []int) {
	for i := range sc.guests {
		out = append(out, sc.guests[i].priority)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	slices.Reverse(out)
	return out
}
