package placement

import (
	"testing"
	"time"

	"sluice/internal/model"
)

// pps sets fixed packet rates.
func pps(rates ...float64) func(int, int, *Candidate) {
	return func(_, i int, c *Candidate) { c.PPS = rates[i] }
}

func adaptiveBench(t *testing.T, n int, params model.Params) *bench {
	t.Helper()
	return newBench(t, model.Rules{Policy: "adaptive", Params: params}, n)
}

func (b *bench) want(holders string) {
	b.t.Helper()
	if got := b.holders(); got != holders {
		b.t.Errorf("after %s: holders %q, want %q", b.now.Sub(start), got, holders)
		for i, r := range b.out {
			b.t.Logf("%s %s", b.cands[i].Name, r)
		}
	}
}

func TestAdaptiveFollowsWhatLasts(t *testing.T) {
	b := adaptiveBench(t, 3, nil)
	b.run(60, 1, pps(9000, 1000, 5000))
	b.want("VM1")
	b.run(20, 1, pps(10, 1000, 5000))
	b.want("VM3")
}

func TestAdaptiveIgnoresABurst(t *testing.T) {
	b := adaptiveBench(t, 3, nil)
	b.run(60, 1, pps(9000, 1000, 5000))
	b.run(2, 1, pps(9000, 1000, 20000))
	b.run(60, 1, pps(9000, 1000, 5000))
	b.want("VM1")
	if r := b.out[2]; r.Code != model.CodeOutranked || r.Other != "VM1" || r.Price < 6900 || r.Price > 7100 {
		t.Errorf("reason %+v, want outranked by VM1 at a price of about 7000", r)
	}
}

// TestAdaptiveSaysWhatItWaitsFor reads the Reason of a challenger before the swap pays off.
func TestAdaptiveSaysWhatItWaitsFor(t *testing.T) {
	b := adaptiveBench(t, 3, nil)
	b.run(60, 1, pps(9000, 1000, 5000))
	b.run(3, 1, pps(9000, 1000, 15000))
	b.want("VM1")
	r := b.out[2]
	if r.Code != model.CodeKept || r.Regret <= 0 || r.Price <= 9000 || r.Score <= r.Price || r.Other != "VM1" || r.Style == "" ||
		r.Gain <= 0 || r.Gain >= r.Cost {
		t.Errorf("reason %+v, want kept, with score, price, regret, the holder to beat, and a swap that gains less than it costs", r)
	}
	b.run(60, 1, pps(9000, 1000, 15000))
	b.want("VM3")
}

func TestAdaptivePriorityAndWeight(t *testing.T) {
	b := adaptiveBench(t, 3, nil)
	b.cands[1].Priority = 1
	b.run(30, 1, pps(9000, 10, 5000))
	b.want("VM2")
	b.cands[1].Priority, b.cands[2].Weight = 0, 4
	b.run(60, 1, pps(9000, 10, 5000))
	b.want("VM3")
}

func TestAdaptiveKeepsToItsBudget(t *testing.T) {
	b := adaptiveBench(t, 2, model.Params{"moves_per_hour": 0.001})
	moves, held := 0, ""
	for n := range 20 {
		rates := []float64{10, 9000}
		if n%2 == 0 {
			rates[0], rates[1] = rates[1], rates[0]
		}
		b.run(120, 1, pps(rates...))
		if h := b.holders(); h != held {
			moves, held = moves+1, h
		}
	}
	if moves != 5 { // the first and a burst of 4
		t.Errorf("%d moves, want 5", moves)
	}
	if r := b.out[1]; r.Code != model.CodeBudget && b.out[0].Code != model.CodeBudget {
		t.Errorf("no reason says that the budget is used up: %+v", b.out)
	}
}

func TestAdaptiveHoldsAtLeast(t *testing.T) {
	b := adaptiveBench(t, 2, model.Params{"hold_s": 60})
	b.run(2, 1, pps(9000, 10))
	b.run(50, 1, pps(0, 9000))
	b.want("VM1")
	b.run(20, 1, pps(0, 9000))
	b.want("VM2")
}

// TestAdaptiveInABlackout checks that no VM whose load is unknown is moved, but not forever.
func TestAdaptiveInABlackout(t *testing.T) {
	b := adaptiveBench(t, 3, nil)
	b.run(60, 1, pps(9000, 1000, 5000))
	b.cands[0].Known = false
	b.run(300, 1, pps(0, 1000, 20000))
	b.want("VM1")
	if r := b.out[0]; r.Code != model.CodeBlind || !r.Hold {
		t.Errorf("reason %+v, want blind and holding", r)
	}
	b.run(600, 1, pps(0, 1000, 20000))
	b.want("VM3")
}

// TestAdaptiveWeighsMovesHere checks that more must be at stake if moves fail often or take long.
func TestAdaptiveWeighsMovesHere(t *testing.T) {
	wait := func(cost Cost, params model.Params) int {
		b := adaptiveBench(t, 2, params)
		b.run(30, 1, pps(9000, 5000))
		b.cands[0].Cost, b.cands[1].Cost = cost, cost
		for s := 1; s < 600; s++ {
			b.run(1, 1, pps(9000, 12000))
			if b.holders() == "VM2" {
				return s
			}
		}
		return 600
	}
	plain, slow, failing := wait(Cost{}, nil), wait(Cost{Plug: 20 * time.Second, Unplug: 6 * time.Second}, nil), wait(Cost{Fail: 0.5}, nil)
	lossy := wait(Cost{}, model.Params{"lost_s": 20})
	if plain >= slow || plain >= failing || plain >= lossy {
		t.Errorf("it waits %d s, %d s when moves are slow, %d s when half fail, %d s when they lose packets", plain, slow, failing, lossy)
	}
}

// TestAdaptiveLearnsPatience checks that moves follow loads that last, and ignore those that flip back and forth.
func TestAdaptiveLearnsPatience(t *testing.T) {
	b := adaptiveBench(t, 20, nil)
	served, moves := 0.0, 0
	flip := func(half int) func(int, int, *Candidate) {
		return func(s, i int, c *Candidate) {
			c.PPS = 0
			if (s/half+i)%2 == 0 {
				c.PPS = float64(9000 + 100*i)
			}
		}
	}
	play := func(half, seconds int) {
		served, moves = 0, 0
		held := ""
		load := flip(half)
		for n := range seconds {
			b.run(1, 10, func(_, i int, c *Candidate) { load(n, i, c) })
			busy := 0
			for i := range b.cands {
				if b.out[i].Hold && b.cands[i].PPS > 0 {
					busy++
				}
			}
			served += float64(busy) / 10 / float64(seconds)
			if h := b.holders(); h != held {
				moves, held = moves+1, h
			}
		}
	}
	for _, half := range []int{90, 8, 90} {
		play(half, 600) // learn
		play(half, 1200)
		t.Logf("%d s: %.0f %% served, holders changed %d times", half, 100*served, moves)
		// All flip at once, and the budget lets five of ten VFs follow at once: 90 % at most.
		if half == 90 && served < 0.8 {
			t.Errorf("of the VFs %.0f %% serve busy VMs where loads stay for 90 s, want 80 %%", 100*served)
		}
		if half == 8 && moves > 12 {
			t.Errorf("holders change %d times in 20 minutes where loads flip every 8 s, want 12 at most", moves)
		}
	}
}
