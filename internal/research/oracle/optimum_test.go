package oracle

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// missed returns what a VM moves in the given seconds from a tick on.
func missed(r *Rates, tick, vm int, seconds float64) float64 {
	sum, step := 0.0, r.Step.Seconds()
	for t := tick; t < len(r.PPS) && float64(t-tick)*step < seconds; t++ {
		sum += r.PPS[t][vm] * min(seconds-float64(t-tick)*step, step)
	}
	return sum
}

// brute tries every sequence of sets of holders.
func brute(r *Rates, vfs int, c Charge) float64 {
	m := len(r.VMs)
	worth := make([]float64, 1<<m)
	for t, pps := range r.PPS {
		next := make([]float64, 1<<m)
		for s := range next {
			next[s] = math.Inf(-1)
			if bits.OnesCount(uint(s)) > vfs {
				continue
			}
			for old := range worth {
				v := worth[old]
				for i := range m {
					if s>>i&1 == 0 {
						continue
					}
					v += pps[i] * r.Step.Seconds()
					if old>>i&1 == 0 && t > 0 {
						v -= missed(r, t, i, c.Swap) + c.Risk
					}
				}
				next[s] = max(next[s], v)
			}
		}
		worth = next
	}
	best := math.Inf(-1)
	for _, v := range worth {
		best = max(best, v)
	}
	return best
}

func TestOptimumIsWhatBruteForceFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, ticks := rapid.IntRange(1, 5).Draw(t, "vms"), rapid.IntRange(1, 9).Draw(t, "ticks")
		r := &Rates{Step: rapid.SampledFrom([]time.Duration{time.Second, 400 * time.Millisecond}).Draw(t, "step"), VMs: make([]string, m)}
		rate := rapid.Map(rapid.IntRange(0, 6), func(n int) float64 { return float64(n * n) })
		for range ticks {
			r.PPS = append(r.PPS, rapid.SliceOfN(rate, m, m).Draw(t, "rates"))
		}
		vfs := rapid.IntRange(0, m).Draw(t, "vfs")
		c := Charge{Swap: rapid.Float64Range(0, 2).Draw(t, "swap"), Risk: rapid.Float64Range(0, 30).Draw(t, "risk")}
		got, want := Optimum(r, vfs, c), brute(r, vfs, c)
		if math.Abs(got.Value-want) > 1e-3 || got.Upper != got.Value {
			t.Fatalf("optimum %v (at most %v), brute force finds %v", got.Value, got.Upper, want)
		}
		// Its Log must have that value.
		f := Measure(r, got.Log, vfs, c)
		if d := f.Benefit - swapLoss(r, got.Log, c) - c.Risk*float64(got.Moves); math.Abs(d-want) > 1e-3 {
			t.Fatalf("its placement is worth %v, not %v: %v", d, want, got.Log)
		}
	})
}

// TestWindowsHoldTheOptimumBetweenThem: rates of many windows are solved nearly exactly, and the upper bound is never below the optimum.
func TestWindowsHoldTheOptimumBetweenThem(t *testing.T) {
	for vfs := 1; vfs < 5; vfs++ {
		r := random(6, 5*(commit+look))
		c := Charge{Swap: PaperSwap, Risk: 10 * r.Median()}
		best, want := Optimum(r, vfs, c), brute(r, vfs, c)
		if best.Value > want*(1+1e-9) || best.Upper < want*(1-1e-9) {
			t.Errorf("%d VFs: between %v and %v, but brute force finds %v", vfs, best.Value, best.Upper, want)
		}
		if best.Value < want*0.9995 || best.Upper > want*1.01 {
			t.Errorf("%d VFs: between %v and %v is wide of %v", vfs, best.Value, best.Upper, want)
		}
	}
}

func swapLoss(r *Rates, l Log, c Charge) float64 {
	sum := 0.0
	for _, e := range l {
		if e.On && e.At > 0 {
			sum += missed(r, int(e.At/r.Step), e.VM, c.Swap)
		}
	}
	return sum
}

func random(m, ticks int) *Rates {
	r := &Rates{Step: time.Second}
	g := rand.New(rand.NewPCG(1, 1))
	level := make([]float64, m)
	for i := range m {
		r.VMs = append(r.VMs, fmt.Sprint(i))
	}
	for range ticks {
		for i := range level {
			if g.IntN(20) == 0 {
				level[i] = float64(g.IntN(2)) * 100e3 * g.Float64()
			}
		}
		r.PPS = append(r.PPS, append([]float64(nil), level...))
	}
	return r
}

func BenchmarkOptimum(b *testing.B) {
	r := random(100, 3600)
	for range b.N {
		best := Optimum(r, 63, Charge{Swap: PaperSwap, Risk: 10 * r.Median()})
		b.ReportMetric(float64(best.Moves), "moves")
		b.ReportMetric((best.Upper/best.Value-1)*1e6, "gap-ppm")
	}
}
