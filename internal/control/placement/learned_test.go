package placement

import (
	"math/rand/v2"
	"testing"

	"sluice/internal/model"
)

// trial runs loads through adaptive and counts what VFs carry, minus the cost of moves.
type trial struct {
	*bench
	slots   int
	steady  int     // VMs from this on send a third of the crest all the time; 0: none does
	fixed   bool    // it cannot learn: what it knows of bursts is taken from it
	charge  float64 // packets a move
	carried float64
	moves   int
}

const crest = 60e3 // packets/s

func newTrial(t *testing.T, vms, slots int, fixed bool) *trial {
	return &trial{bench: adaptiveBench(t, vms, nil), slots: slots, fixed: fixed, charge: 10 * crest}
}

// second simulates one second; busy says which VMs are busy.
func (y *trial) second(busy []bool) {
	if y.fixed {
		for _, m := range y.p.(*adaptive).Mem.all {
			m.Runs = runs{}
		}
	}
	before := make([]bool, len(y.cands))
	for i := range y.cands {
		before[i] = y.cands[i].Holds
	}
	y.run(1, y.slots, func(_, i int, c *Candidate) {
		c.PPS = 0
		if busy[i] {
			c.PPS = crest + 100*float64(i)
		}
		if y.steady > 0 && i >= y.steady {
			c.PPS = crest / 3
		}
	})
	for i, c := range y.cands {
		if !c.Holds {
			continue
		}
		y.carried += c.PPS
		if !before[i] {
			y.moves++
			y.carried -= swapTime(&c, &c) * c.PPS
		}
	}
}

func (y *trial) net() float64 { return y.carried - y.charge*float64(max(0, y.moves-y.slots)) }

// load says which VMs are busy in a second, given the holders of VFs.
type load func(second int, holds func(i int) bool) []bool

// rhythm is busy for on() seconds and silent for off(), independently for each VM.
func rhythm(n int, seed uint64, on, off func(r *rand.Rand, second int) float64) load {
	r := rand.New(rand.NewPCG(seed, 7))
	busy, until := make([]bool, n), make([]float64, n)
	for i := range until {
		until[i] = r.Float64() * (on(r, 0) + off(r, 0))
	}
	return func(s int, _ func(int) bool) []bool {
		for i := range busy {
			for float64(s) >= until[i] {
				if busy[i] = !busy[i]; busy[i] {
					until[i] += on(r, s)
				} else {
					until[i] += off(r, s)
				}
			}
		}
		return busy
	}
}

func about(mean, share float64) func(*rand.Rand, int) float64 {
	return func(r *rand.Rand, _ int) float64 { return mean * (1 + share*(2*r.Float64()-1)) }
}

// against is the worst case for a predictor: a steady rhythm first, and once that is learned, each burst ends as soon as its VM has
// had a VF for two seconds.
func against(n int, seed uint64, learnt int) load {
	plain := rhythm(n, seed, about(50, 0), about(70, 0))
	begun, had := make([]int, n), make([]int, n)
	busy := make([]bool, n)
	return func(s int, holds func(int) bool) []bool {
		rhythm := plain(s, holds)
		if s < learnt {
			return rhythm
		}
		for i := range busy {
			if rhythm[i] && !busy[i] && begun[i] < s-60 {
				busy[i], begun[i], had[i] = true, s, 0
			}
			if holds(i) {
				had[i]++
			}
			if !rhythm[i] || had[i] > 2 {
				busy[i] = false
			}
		}
		return busy
	}
}

// TestConsistentAndRobust measures what learning gains, and what it costs if it predicts wrongly: the same loads with and without
// learning.
func TestConsistentAndRobust(t *testing.T) {
	const n, slots, learnt, seconds = 40, 14, 900, 3600
	changing := func(a, b float64) func(*rand.Rand, int) float64 {
		return func(_ *rand.Rand, s int) float64 {
			if s/600%2 == 0 {
				return a
			}
			return b
		}
	}
	for _, c := range []struct {
		name  string
		load  func(seed uint64) load
		least float64 // of the net of one that cannot learn
	}{
		{"perfect", func(s uint64) load { return rhythm(n, s, about(50, 0), about(70, 0)) }, 1.1},
		{"noisy, a fifth", func(s uint64) load { return rhythm(n, s, about(50, 0.2), about(70, 0.2)) }, 1.1},
		{"noisy, two thirds", func(s uint64) load { return rhythm(n, s, about(50, 0.67), about(70, 0.67)) }, 1.08},
		{"memoryless", func(s uint64) load {
			return rhythm(n, s, func(r *rand.Rand, _ int) float64 { return 50 * r.ExpFloat64() },
				func(r *rand.Rand, _ int) float64 { return 70 * r.ExpFloat64() })
		}, 0.99},
		{"changing", func(s uint64) load { return rhythm(n, s, changing(15, 100), changing(20, 140)) }, 1.1},
		{"adversarial", func(s uint64) load { return against(n, s, learnt) }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			sum := [2]float64{}
			for seed := range uint64(3) {
				one, fixed := newTrial(t, n, slots, false), newTrial(t, n, slots, true)
				// Each has an adversary of its own.
				a, b, learns := c.load(seed), c.load(seed), 0
				for s := range seconds {
					one.second(a(s, func(i int) bool { return one.cands[i].Holds }))
					fixed.second(b(s, func(i int) bool { return fixed.cands[i].Holds }))
					if one.p.(*adaptive).Leader == learned {
						learns++
					}
				}
				t.Logf("seed %d: net %.1f M packets and %d moves, without learning %.1f M and %d; it led %d s", seed, one.net()/1e6, one.moves,
					fixed.net()/1e6, fixed.moves, learns)
				sum[0], sum[1] = sum[0]+one.net(), sum[1]+fixed.net()
			}
			if got := sum[0] / sum[1]; got < c.least {
				t.Errorf("%.3f times the net of one that cannot learn, want %.2f", got, c.least)
			}
		})
	}
}

// TestLongBurstsAtOnceShortOnesNever: a VM whose bursts have lasted 50 s gets a VF at the first sample of one, and a VM whose bursts
// last 7 s never does.
func TestLongBurstsAtOnceShortOnesNever(t *testing.T) {
	const n, slots = 12, 4
	y := newTrial(t, n, slots, false)
	y.steady = 7 // enough to have all VFs when nobody else wants them
	begun, waited, served, short := make([]int, n), 0, 0, 0
	busy := make([]bool, n)
	for s := range 5400 {
		for i := range busy {
			was := busy[i]
			switch {
			case i < 2: // 7 s in 60
				busy[i] = (s+29*i)%60 < 7
			case i < y.steady: // 50 s in 200
				busy[i] = (s+40*i)%200 < 50
			}
			if busy[i] && !was {
				begun[i] = s
			}
		}
		had := make([]bool, n)
		for i := range had {
			had[i] = y.cands[i].Holds
		}
		y.second(busy)
		if s < 1800 {
			continue
		}
		for i := range had {
			switch got := y.cands[i].Holds && !had[i]; {
			case got && i < 2:
				short++
			case got && i < y.steady && busy[i]:
				served++
				waited += s - begun[i]
			}
		}
	}
	if short > 0 {
		t.Errorf("VMs with bursts of 7 s got a VF %d times, want never", short)
	}
	if served < 60 || float64(waited)/float64(max(1, served)) > 1 {
		t.Errorf("VMs with bursts of 50 s got a VF %d times after a mean of %.1f s, want 60 at least, within 1 s", served,
			float64(waited)/float64(max(1, served)))
	}
	if r := y.out[3]; r.Bursts.Seen < 20 || r.Bursts.High < 49 || r.Bursts.High > 51 {
		t.Errorf("it says %+v of bursts of 50 s", r.Bursts)
	}
}

// TestImpossibleMemoryIsRefused checks that state which adaptive cannot have written into a recording is an error.
func TestImpossibleMemoryIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"too few styles": `{"Styles":[{}]}`,
		"no such leader": `{"Leader":3}`,
		"no such length": `{"Mem":{"All":{"a/n":{"Runs":{"Len":[{"Seen":2,"Last":[5,0,0,0,0,0,0,0]},{}]}}},"Last":[]}}`,
		"so many bursts": `{"Mem":{"All":{"a/n":{"Runs":{"Len":[{"Seen":9223372036854775807,"Last":[5,5,5,5,5,5,5,5]},{}]}}},"Last":[]}}`,
	} {
		d := decider(t, model.Rules{Policy: "adaptive"})
		if err := d.Recall(Memory{Policies: map[string]PolicyMemory{"br0": {text: []byte(text)}}}); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			t.Log(err)
		}
	}
}

// TestFormerMemoryIsRecalled: a recording of the version that did not learn bursts continues with the present styles.
func TestFormerMemoryIsRecalled(t *testing.T) {
	former := `{"Last":"2026-01-01T00:00:10Z","Mem":{"All":{"a/n":{"Rate":5,"Long":5,"Age":9,"Bids":[{"Held":true},{},{},{}]}},` +
		`"Last":["a/n"]},` +
		`"Styles":[{"Name":"quick","Tau":3,"Risk":5,"Account":7},{"Name":"steady","Tau":10,"Habit":0.3,"Risk":20},` +
		`{"Name":"patient","Tau":10,"Habit":0.7,"Risk":30}],"Leader":1,"Tokens":4}`
	d := decider(t, model.Rules{Policy: "adaptive"})
	if err := d.Recall(Memory{Policies: map[string]PolicyMemory{"br0": {text: []byte(former)}}}); err != nil {
		t.Fatal(err)
	}
	got, fresh := d.policies["br0"].(*adaptive), newAdaptive(model.Rules{Policy: "adaptive"}).(*adaptive)
	for k, s := range got.Styles {
		if f := fresh.Styles[k]; k != learned && (s.Tau != f.Tau || s.Habit != f.Habit || s.Risk != f.Risk) {
			t.Errorf("style %s has %+v, want %+v", styleNames[k], s, f)
		}
	}
	if got.Styles[0].Account != 7 || got.Leader != 1 || len(got.Mem.ids) != 1 {
		t.Errorf("%+v, want the account, the leader and the NIC that were recorded", got)
	}
}

// TestOneCycleBesideASteadyVM: one VF goes to a VM with regular bursts as each begins, and back as it ends.
func TestOneCycleBesideASteadyVM(t *testing.T) {
	b := adaptiveBench(t, 2, nil)
	wrong := 0
	b.run(7200, 1, func(s, i int, c *Candidate) {
		busy := s%158 >= 110
		if s > 3600 && c.Holds != (busy == (i == 1)) {
			wrong++ // who held it until now is not who should have it
		}
		switch c.PPS = 15000; {
		case i == 1 && busy:
			c.PPS = 40000
		case i == 1:
			c.PPS = 0
		}
	})
	if most := 2 * 3600 / 158 * 2 * 2; wrong > most { // 2 s at each change, of both VMs
		t.Errorf("in an hour the VF was where it should not be for %d s of either VM, want %d at most", wrong/2, most/2)
	}
	if got := b.out[1].Style; got != "learned: between bursts" {
		t.Errorf("it says %q", got)
	}
}
