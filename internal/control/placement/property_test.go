package placement

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/model"
)

// eachPolicy checks a property for every policy; rapid shrinks failures.
func eachPolicy(t *testing.T, check func(t *rapid.T, rules model.Rules)) {
	t.Helper()
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { check(t, model.Rules{Policy: name, Interval: 5 * time.Second}) })
		})
	}
}

// world is a host as a policy sees it. Candidates come and go, their loads become unknown, and they report figures that no counter
// should show.
type world struct {
	policy Policy
	cands  []Candidate
	out    []model.Reason
	now    time.Time
	moves  int
}

func newWorld(t *rapid.T, rules model.Rules) *world {
	p, err := NewPolicy(rules)
	if err != nil {
		t.Fatal(err)
	}
	return &world{policy: p, now: start}
}

func (w *world) add(id int) {
	name := fmt.Sprintf("vm%03d", id)
	w.cands = append(w.cands, Candidate{VM: model.VMID(name), Name: name, Known: true, Weight: 1})
}

// decide calls the policy and applies its decisions.
func (w *world) decide(slots int) {
	w.out = make([]model.Reason, len(w.cands))
	w.policy.Select(w.now, w.cands, slots, w.out)
	for i := range w.cands {
		if w.out[i].Hold && !w.cands[i].Holds {
			w.moves++
		}
		w.cands[i].Holds = w.out[i].Hold
	}
	w.now = w.now.Add(time.Second)
}

func (w *world) held() int {
	n := 0
	for _, r := range w.out {
		if r.Hold {
			n++
		}
	}
	return n
}

func (w *world) check(t *rapid.T, slots int) {
	if n := w.held(); n > slots {
		t.Fatalf("%d hold one of %d VFs", n, slots)
	}
	for i, r := range w.out {
		if r.Code == "" {
			t.Fatalf("%s got no reason: %+v", w.cands[i].VM, r)
		}
		if bad(r.Score) || bad(r.Price) || bad(r.Regret) {
			t.Fatalf("%s: a figure is none: %+v", w.cands[i].VM, r)
		}
	}
}

func bad(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

// TestNeverMoreHoldersThanVFs: with VMs that come and go, blackouts, counters that stop or jump, changing numbers of VFs, weights
// and priorities.
func TestNeverMoreHoldersThanVFs(t *testing.T) {
	rates := rapid.OneOf(rapid.Float64Range(0, 1e5), rapid.SampledFrom([]float64{0, 1, 1e12, 5e-324}))
	eachPolicy(t, func(t *rapid.T, rules model.Rules) {
		w := newWorld(t, rules)
		next, slots := 0, rapid.IntRange(0, 4).Draw(t, "vfs")
		for range rapid.IntRange(1, 40).Draw(t, "ticks") {
			switch rapid.IntRange(0, 9).Draw(t, "event") {
			case 0, 1:
				w.add(next)
				c := &w.cands[len(w.cands)-1]
				c.Weight = rapid.Float64Range(0.1, 10).Draw(t, "weight")
				c.Priority = rapid.IntRange(-1, 1).Draw(t, "priority")
				c.Cost.Fail = rapid.Float64Range(0, 1).Draw(t, "failures")
				next++
			case 2:
				if n := len(w.cands); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "leaves")
					w.cands = append(w.cands[:i], w.cands[i+1:]...)
				}
			case 3:
				slots = rapid.IntRange(0, 4).Draw(t, "vfs")
			case 4:
				w.now = w.now.Add(time.Duration(rapid.IntRange(-2, 4000).Draw(t, "gap")) * time.Second)
			}
			for i := range w.cands {
				w.cands[i].Known = rapid.IntRange(0, 9).Draw(t, "known") > 0
				w.cands[i].PPS = rates.Draw(t, "pps")
				w.cands[i].Bytes = w.cands[i].PPS * 100
			}
			w.decide(slots)
			w.check(t, slots)
		}
	})
}

// TestEveryVFIsUsed: if there are enough VMs, all VFs are held at every tick; with vnraf, if enough VMs have traffic.
func TestEveryVFIsUsed(t *testing.T) {
	for name, least := range map[string]float64{"activity": 0, "adaptive": 0, "fair": 0, "rentbuy": 0, "vnraf": 1} {
		rapid.Check(t, func(t *rapid.T) {
			w := newWorld(t, model.Rules{Policy: name, Interval: 5 * time.Second})
			n := rapid.IntRange(1, 8).Draw(t, "vms")
			for i := range n {
				w.add(i)
			}
			slots := rapid.IntRange(0, n).Draw(t, "vfs")
			for range 20 {
				for i := range w.cands {
					w.cands[i].PPS = rapid.Float64Range(least, 100).Draw(t, "pps")
					w.cands[i].Bytes = 100 * w.cands[i].PPS
				}
				w.decide(slots)
				if w.held() != slots {
					t.Fatalf("%s: %d of %d VFs are held", name, w.held(), slots)
				}
			}
		})
	}
}

// TestNoSwapAtTies: constant loads within 3 % of each other, with 3 % noise, cause no move.
func TestNoSwapAtTies(t *testing.T) {
	for _, name := range []string{"adaptive", "rentbuy"} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
				w := newWorld(t, model.Rules{Policy: name})
				n := rapid.IntRange(2, 30).Draw(t, "vms")
				slots := rapid.IntRange(1, n-1).Draw(t, "vfs")
				level := rapid.Float64Range(10, 1e6).Draw(t, "pps")
				for i := range n {
					w.add(i)
				}
				for range 600 {
					for i := range w.cands {
						w.cands[i].PPS = level * (1 + 0.03*(2*r.Float64()-1))
					}
					w.decide(slots)
				}
				if w.moves != slots {
					t.Fatalf("%d plugs for %d VFs", w.moves, slots)
				}
			})
		})
	}
}

// play runs random bursts and returns the holders over time; seen changes what a policy sees.
func play(t *rapid.T, rules model.Rules, seed uint64, n, slots int, order []int, seen func(float64) float64) []string {
	r := rand.New(rand.NewPCG(seed, 2))
	w := newWorld(t, rules)
	for _, i := range order {
		w.add(i)
	}
	var out []string
	level := make([]float64, n)
	for range 120 {
		for i := range level {
			if r.IntN(15) == 0 {
				level[i] = float64(r.IntN(2)) * (1000 + 100000*r.Float64())
			}
		}
		for k, i := range order {
			w.cands[k].PPS = seen(level[i])
			w.cands[k].Bytes = seen(level[i]) * 512
		}
		w.decide(slots)
		hold := make([]byte, n)
		for k, i := range order {
			hold[i] = '.'
			if w.out[k].Hold {
				hold[i] = '#'
			}
		}
		out = append(out, string(hold))
	}
	return out
}

// TestOrderDoesNotMatter: the holders do not depend on the order of VMs in the list.
func TestOrderDoesNotMatter(t *testing.T) {
	eachPolicy(t, func(t *rapid.T, rules model.Rules) {
		n := rapid.IntRange(2, 12).Draw(t, "vms")
		slots := rapid.IntRange(1, n-1).Draw(t, "vfs")
		seed := rapid.Uint64().Draw(t, "seed")
		sorted := make([]int, n)
		for i := range sorted {
			sorted[i] = i
		}
		same := func(x float64) float64 { return x }
		a := play(t, rules, seed, n, slots, sorted, same)
		b := play(t, rules, seed, n, slots, rapid.Permutation(sorted).Draw(t, "order"), same)
		for i := range a {
			if a[i] != b[i] {
				t.Fatalf("second %d: %s in order, %s shuffled", i, a[i], b[i])
			}
		}
	})
}

// TestUnitsDoNotMatter: counting in thousands of packets changes nothing, because the risk of a move is in seconds of the typical
// rate. A power of two scales exactly.
func TestUnitsDoNotMatter(t *testing.T) {
	eachPolicy(t, func(t *rapid.T, rules model.Rules) {
		n := rapid.IntRange(2, 12).Draw(t, "vms")
		slots := rapid.IntRange(1, n-1).Draw(t, "vfs")
		seed := rapid.Uint64().Draw(t, "seed")
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		f := math.Ldexp(1, rapid.IntRange(-8, 8).Draw(t, "scale"))
		a := play(t, rules, seed, n, slots, order, func(x float64) float64 { return x })
		b := play(t, rules, seed, n, slots, order, func(x float64) float64 { return x * f })
		for i := range a {
			if a[i] != b[i] {
				t.Fatalf("second %d: %s, and times %g %s", i, a[i], f, b[i])
			}
		}
	})
}
