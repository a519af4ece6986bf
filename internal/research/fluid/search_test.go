package fluid

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// draw returns a random program, with attackers that have guarantees or with such that have none.
func draw(r *rand.Rand, liars bool) *program {
	p := &program{Period: pick(r, 40, 100, 100, 200), Carries: pick(r, 1, 1, .95), Uneven: pick(r, 0, 0, .2), Seed: r.Uint64N(1 << 32)}
	p.drawHonest(r, liars)
	n := 1 + r.IntN(6)
	if liars {
		n = 1 + r.IntN(2)
	}
	for range n {
		p.Attackers = append(p.Attackers, drawAttacker(r, liars, n))
	}
	if liars { // with a plain attacker at times
		for range r.IntN(2) {
			p.Attackers = append(p.Attackers, drawAttacker(r, false, n))
		}
	}
	if together := r.IntN(3); together > 0 { // all do the same; at the same time or not
		for i := range p.Attackers {
			a := &p.Attackers[i]
			if a.Steps = p.Attackers[0].Steps; together == 1 {
				a.Late = 0
			}
		}
	}
	return p
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// drawHonest draws those who are judged, with 20 of 40 Gbit/s guaranteed in all, or 16 if there are liars; and at least one without a
// guarantee who wants all that there is, so that a law can always use the link.
func (p *program) drawHonest(r *rand.Rand, liars bool) {
	most := 20.
	if liars {
		most = 16
	}
	list := []float64{most}
	if r.IntN(3) == 0 {
		first := math.Round(most * (.2 + .6*r.Float64()))
		list = []float64{first, most - first}
	}
	p.Honest = nil
	for _, g := range list {
		h := honest{Flows: pick(r, 1., 1, 5), Guarantee: g}
		h.Wants = pick(r, 0, 0, g, rounded(.7*g))
		h.OnOff = pick(r, 0, 0, 2000)
		p.Honest = append(p.Honest, h)
	}
	for range 1 + r.IntN(3) {
		p.Honest = append(p.Honest, honest{Flows: pick(r, 1., 3, 5)})
	}
}

// drawAttacker draws one of n attackers. A liar is on for a tenth of the time or so.
func drawAttacker(r *rand.Rand, liar bool, n int) attacker {
	a := attacker{Flows: pick(r, 1., 2, 5, 10), Late: late(r)}
	if !liar {
		for range 1 + r.IntN(4) {
			a.Steps = append(a.Steps, drawStep(r))
		}
		return a
	}
	a.Guarantee = math.Round((4 + 12*r.Float64()) / float64(n))
	on := logUniform(r, .2, 10)
	a.Steps = []step{{For: on, Send: sendAll}, {For: rounded(on * logUniform(r, 3, 30)), Send: sendNone}}
	if r.IntN(3) == 0 {
		a.Steps[1] = drawStep(r)
	}
	return a
}

func drawStep(r *rand.Rand) step {
	s := step{For: logUniform(r, .5, 50), Level: rounded(r.Float64())}
	if r.IntN(2) == 0 {
		s.Level = rounded(.75 + .24*r.Float64())
	}
	if r.IntN(4) == 0 {
		s.Jitter = rounded(.02 + .3*r.Float64())
	}
	if s.Send = pick(r, sendAll, sendAll, sendAll, sendAll, sendLimit, sendLimit, sendLimit); r.IntN(3) == 0 {
		s.Send = pick(r, sends...)
	}
	return s
}

func late(r *rand.Rand) float64 { return rounded(50 * r.Float64()) }

func logUniform(r *rand.Rand, low, high float64) float64 {
	return rounded(low * math.Pow(high/low, r.Float64()))
}

// rounded keeps programs short.
func rounded(x float64) float64 { return math.Round(x*1e3) / 1e3 }

// changed returns the program with a random change.
func (p *program) changed(r *rand.Rand) *program {
	const most = 6 // attackers
	q := *p
	q.Why, q.Attackers = "", slices.Clone(p.Attackers)
	at := r.IntN(len(q.Attackers))
	a := &q.Attackers[at]
	a.Steps = slices.Clone(a.Steps)
	s := &a.Steps[r.IntN(len(a.Steps))]
	switch r.IntN(14) {
	case 0:
		if len(q.Attackers) < most {
			q.Attackers = append(q.Attackers, drawAttacker(r, false, 1))
		}
	case 1:
		if len(q.Attackers) < most && a.Guarantee == 0 {
			q.Attackers = append(q.Attackers, *a)
		}
	case 2:
		if len(q.Attackers) > 1 {
			q.Attackers = slices.Delete(q.Attackers, at, at+1)
		}
	case 3:
		a.Steps = append(a.Steps, drawStep(r))
	case 4:
		if len(a.Steps) > 1 {
			a.Steps = a.Steps[1:]
		}
	case 5:
		*s = drawStep(r)
	case 6, 7:
		s.Level = rounded(min(1.2, max(0, s.Level+.1*r.NormFloat64())))
	case 8, 9:
		s.For = rounded(min(400, max(.1, s.For*math.Exp(.4*r.NormFloat64()))))
	case 10:
		a.Late = pick(r, 0, late(r))
	case 11:
		for i := range q.Attackers { // all as this one
			if same := &q.Attackers[i]; (same.Guarantee > 0) == (a.Guarantee > 0) {
				same.Steps = a.Steps
			}
		}
	case 12:
		a.Flows = pick(r, 1., 2, 5, 10)
	default:
		q.Seed = r.Uint64N(1 << 32)
	}
	return &q
}

// theirs is what attackers are guaranteed, in Gbit/s.
func (p *program) theirs() (sum float64) {
	for i := range p.Attackers {
		sum += p.Attackers[i].Guarantee
	}
	return sum
}

// outcome is a program with its verdict; that under the allocator informed; and the same of honest senders in its attackers' place.
type outcome struct {
	*program
	verdict
	informed, honest verdict
}

// rank orders programs by harm. short says which of two that miss a goal alike does so more.
func (o *outcome) rank(g *goal) float64 {
	const little = .01
	return g.harm(o) + little*o.short
}

// tryAll judges programs.
func tryAll(list []*program, allocator string) []*outcome {
	out := make([]*outcome, len(list))
	each(len(list), func(i int) { out[i] = try(list[i], allocator) })
	return out
}

func try(p *program, allocator string) *outcome {
	return &outcome{p, p.play(allocator, true), p.play(informed, true), p.play(informed, false)}
}

// climb makes so many changes to a program and keeps those that raise the harm.
func climb(from *outcome, g *goal, changes int, r *rand.Rand, allocator string) *outcome {
	for range changes {
		if next := try(from.changed(r), allocator); next.rank(g) >= from.rank(g) {
			from = next
		}
	}
	return from
}

// worst returns the n that miss a goal by most, the worst first.
func worst(list []*outcome, g *goal, n int) []*outcome {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *outcome) int {
		switch x, y := a.rank(g), b.rank(g); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return list[:min(n, len(list))]
}

// each calls f for 0 to n-1 on all processors.
func each(n int, f func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	all.Wait()
}
