package fluid

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"sluice/internal/control/bandwidth"
)

var (
	programs = flag.Int("programs", 120, "random programs of senders that TestAdversaries tries")
	climbs   = flag.Int("climbs", 60, "changes that it then tries to the worst of them")
	keep     = flag.String("keep", "", "file to which TestAdversaries writes the worst programs that it found")
)

// program is what the senders of a link do. All times are in ms, all rates are parts of the link's speed.
type program struct {
	Period    int        `json:"period"`    // of the controller
	Cold      float64    `json:"cold"`      // part that the link carries less than its speed
	Guarantee float64    `json:"guarantee"` // of the honest sender with one,
	Wants     float64    `json:"wants"`     // which wants so much
	Attackers []attacker `json:"attackers"` // without guarantees
	Seed      uint64     `json:"seed"`      // of the noise
}

// attacker alternates between all it can send and a part of its own limit.
type attacker struct {
	Cycle int     `json:"cycle"`
	Phase int     `json:"phase"`
	All   float64 `json:"all"`  // part of the cycle in which it sends all it can
	Part  float64 `json:"part"` // of its limit that it sends otherwise
	Flows float64 `json:"flows"`
}

// demand is what the attacker wants to send at t, given its limit.
func (a *attacker) demand(t time.Duration, limit float64) float64 {
	cycle := time.Duration(a.Cycle) * time.Millisecond
	if float64((t+time.Duration(a.Phase)*time.Millisecond)%cycle) < a.All*float64(cycle) {
		return math.Inf(1)
	}
	return a.Part * min(limit, speed)
}

// verdict is what a program does to others.
type verdict struct {
	satisfied float64 // % of the windows of the honest sender with a guarantee, from 1 s after the start
	used      float64 // % of what honest senders in the attackers' place would use
	healed    time.Duration
}

const (
	attackFor = 20 * time.Second
	healFor   = 8 * time.Second
)

// run judges a program. An honest sender without a guarantee, which wants all there is, takes part too. The attackers leave after
// attackFor; the link is healed once 95 % of it is used and the guarantee satisfied for a second.
func (p *program) run() (v verdict) {
	v.satisfied, v.used, v.healed = p.simulate(true)
	_, honest, _ := p.simulate(false)
	v.used *= 100 / honest
	return v
}

func (p *program) simulate(attack bool) (satisfied, used float64, healed time.Duration) {
	period := time.Duration(p.Period) * time.Millisecond
	r := Run{Noise: .02, Period: period, Delay: period / 10, Length: attackFor + healFor, Warm: time.Second, Seed: p.Seed}
	senders := []Sender{guaranteed(p.Guarantee*speed/gbit, 1, func(time.Duration) float64 { return p.Wants * speed }), bestEffort(3)}
	for i := range p.Attackers {
		a, at := &p.Attackers[i], len(senders)
		senders = append(senders, Sender{Flows: a.Flows, Demand: func(t time.Duration) float64 {
			switch {
			case t >= attackFor:
				return 0
			case !attack:
				return math.Inf(1)
			}
			return a.demand(t, r.now[at].Bits)
		}})
	}
	r.Link = fixed(senders...)(0)
	carries := (1 - p.Cold) * speed
	r.Link.Capacity = func(time.Duration) float64 { return carries }
	r.Allocator, _ = bandwidth.NewAllocator("waterfill")
	good, all, sum, steps, well := 0, 0, 0.0, 0, 0
	healed = healFor
	asked := min(p.Wants, p.Guarantee) * speed
	r.watch(func(t time.Duration, sent []float64) {
		ok := sent[0] >= enough*asked
		total := 0.0
		for _, bits := range sent {
			total += bits
		}
		switch {
		case t < r.Warm:
		case t < attackFor:
			all++
			if ok {
				good++
			}
			sum += total / carries
			steps++
		case !ok || total < .95*carries:
			well = 0
		default:
			if well++; well == 5 && healed == healFor {
				healed = t - 4*window - attackFor
			}
		}
	})
	return 100 * float64(good) / float64(all), 100 * sum / float64(steps), healed
}

// watch runs the simulation and shows what each sender sends in each window.
func (r *Run) watch(see func(t time.Duration, sent []float64)) {
	r.begin()
	period := max(1, int(r.Period/Step))
	phase := r.r.IntN(period)
	mean := make([]float64, len(r.sent))
	perWindow := float64(window / Step)
	for k := range int(r.Length / Step) {
		t := time.Duration(k) * Step
		if k%period == phase {
			r.tick(t)
		}
		if r.applyAt > 0 && t >= r.applyAt {
			r.apply(t)
		}
		r.step(t)
		for i := range mean {
			mean[i] += r.sent[i] / perWindow
		}
		if (t+Step)%window == 0 {
			see(t+Step-window, mean)
			clear(mean)
		}
	}
}

// draw returns a random program.
func draw(r *rand.Rand) *program {
	p := &program{
		Period: []int{40, 100, 100, 200}[r.IntN(4)], Cold: []float64{0, 0, 0, .05, .1}[r.IntN(5)],
		Guarantee: []float64{.1, .25, .5}[r.IntN(3)], Seed: r.Uint64N(1000),
	}
	p.Wants = p.Guarantee * []float64{.7, 1, 1.5}[r.IntN(3)]
	for range 1 + r.IntN(5) {
		p.Attackers = append(p.Attackers, drawAttacker(r))
	}
	return p
}

func drawAttacker(r *rand.Rand) attacker {
	a := attacker{
		Cycle: 200 + r.IntN(4000), Phase: r.IntN(4000), All: r.Float64(), Part: .75 + .15*r.Float64(), Flows: float64(1 + r.IntN(6)),
	}
	if r.IntN(2) == 0 {
		a.Phase = 0
	}
	if r.IntN(3) == 0 {
		a.Part = r.Float64()
	}
	return a
}

// changed returns the program with a random change.
func (p *program) changed(r *rand.Rand) *program {
	q := *p
	q.Attackers = append([]attacker(nil), p.Attackers...)
	at := r.IntN(len(q.Attackers))
	a := &q.Attackers[at]
	switch r.IntN(7) {
	case 0:
		q.Attackers = append(q.Attackers, drawAttacker(r))
	case 1:
		*a = drawAttacker(r)
	case 2:
		a.Part = min(.95, max(0, a.Part+.1*r.NormFloat64()))
	case 3:
		a.All = min(1, max(0, a.All+.2*r.NormFloat64()))
	case 4:
		a.Cycle = max(100, int(float64(a.Cycle)*math.Exp(.3*r.NormFloat64())))
	case 5:
		a.Phase = r.IntN(4000)
	default:
		q.Seed = r.Uint64N(1000)
	}
	if len(q.Attackers) > 6 {
		q.Attackers = q.Attackers[1:]
	}
	return &q
}

// TestAdversaries searches for senders without guarantees that do the most harm: at random, then by changes to the worst found. The
// bounds are those of docs/waterfill.md; the worst programs of longer searches are in testdata/adversaries.json and tried each time.
func TestAdversaries(t *testing.T) {
	var known []program
	data, err := os.ReadFile("testdata/adversaries.json")
	if err == nil {
		err = json.Unmarshal(data, &known)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var list []*program
	for i := range known {
		list = append(list, &known[i])
	}
	for range *programs {
		list = append(list, draw(r))
	}
	worst := map[string]*program{}
	least := map[string]float64{}
	judge := func(p *program) {
		v := p.run()
		for what, value := range map[string]float64{"satisfied": v.satisfied, "used": v.used, "healed": -v.healed.Seconds()} {
			key := fmt.Sprint(what, " cold ", p.Cold > 0)
			if was, ok := least[key]; !ok || value < was {
				least[key], worst[key] = value, p
			}
		}
	}
	for _, p := range list {
		judge(p)
	}
	for range *climbs / max(1, len(worst)) {
		for _, key := range []string{"satisfied cold false", "satisfied cold true", "used cold false", "used cold true"} {
			if p := worst[key]; p != nil {
				judge(p.changed(r))
			}
		}
	}
	bounds := map[string]float64{"satisfied cold false": 90, "satisfied cold true": 48, "used cold false": 55, "used cold true": 60}
	for key, value := range least {
		data, _ := json.Marshal(worst[key])
		t.Logf("%s: %.1f by %s", key, value, data)
		if bound, ok := bounds[key]; ok && value < bound {
			t.Errorf("%s: %.1f, want %.0f", key, value, bound)
		}
	}
	if *keep != "" {
		var found []*program
		for _, p := range worst {
			found = append(found, p)
		}
		data, _ := json.MarshalIndent(found, "", "\t")
		if err := os.WriteFile(*keep, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestColdLinks: a link that carries less than its speed from the first moment keeps a guarantee from 1 s after the start, and is used.
func TestColdLinks(t *testing.T) {
	for _, period := range []int{40, 100, 200} {
		for _, g := range []float64{.25, .5} {
			for _, bounded := range []bool{false, true} {
				for _, cold := range []float64{0, .01, .02, .05, .1, .2, .3} {
					p := program{Period: period, Cold: cold, Guarantee: g, Wants: 1, Seed: 3}
					if bounded {
						p.Wants = map[float64]float64{.25: .46, .5: .6}[g]
					}
					for range 4 {
						p.Attackers = append(p.Attackers, attacker{Cycle: 1000, All: 1, Flows: 1})
					}
					if satisfied, used, _ := p.simulate(true); satisfied < 88 || used < 98 {
						t.Errorf("every %d ms, guarantee of %.0f %%, wants %.0f %%, carries %.0f %% less: %.1f %% satisfied, %.1f %% used", period, 100*g,
							100*p.Wants, 100*cold, satisfied, used)
					}
				}
			}
		}
	}
}
