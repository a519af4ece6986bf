package oracle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"sluice/internal/research/workload"
)

// Rhythms lists loads with a rhythm or a typical burst. Policies that learn how long bursts last are tuned on them.
func Rhythms() []Named {
	return []Named{
		{"cycles-25s", "duty cycles of 25 s, each VM with its own share and phase, 40 VFs", fixedCycles("cycles-25s", 40, 25*time.Second, 0)},
		{"cycles-45s", "likewise, of 45 s", fixedCycles("cycles-45s", 40, 45*time.Second, 0)},
		{"cycles-90s", "likewise, of 90 s", fixedCycles("cycles-90s", 40, 90*time.Second, 0)},
		{"cycles-3min", "likewise, of 3 min, each stretch off by up to a tenth", fixedCycles("cycles-3min", 40, 3*time.Minute, 0.1)},
		{
			"tails-seconds", "heavy-tailed bursts of 8 s, 30 VFs",
			bursts("tails-seconds", 30, 0, workload.Pareto(1.5, 8*time.Second), workload.Pareto(1.5, 16*time.Second), 1./3),
		},
		{
			"tails-minute", "heavy-tailed bursts of a minute, 30 VFs",
			bursts("tails-minute", 30, 0, workload.Pareto(1.5, time.Minute), workload.Pareto(1.5, 2*time.Minute), 1./3),
		},
		{
			"memoryless", "exponential bursts of 40 s, 30 VFs",
			bursts("memoryless", 30, 0.05, workload.Exponential(40*time.Second), workload.Exponential(80*time.Second), 1./3),
		},
		{
			"typical-48s", "bursts of about 48 s after any time, 25 VFs",
			bursts("typical-48s", 25, 0.05, workload.Uniform(43*time.Second, 53*time.Second), workload.Exponential(2*time.Minute), 0.3),
		},
		{"short-7s", "bursts of about 7 s after any time, over steady VMs, 25 VFs", shortOverSteady},
		{"changing", "cycles of 30 s that become cycles of 4 min and back, 40 VFs", changing},
	}
}

// HeldOut lists the loads on which such policies are judged: other lengths, other distributions, other scarcity. They must not be
// tuned on these.
func HeldOut() []Named {
	return []Named{
		{"held-cycles-20s", "duty cycles of 20 s, 35 VFs", fixedCycles("held-cycles-20s", 35, 20*time.Second, 0)},
		{
			"held-cycles-36s", "duty cycles of 36 s, each stretch off by up to a fifth, 45 VFs",
			fixedCycles("held-cycles-36s", 45, 36*time.Second, 0.2),
		},
		{"held-cycles-75s", "duty cycles of 75 s, 50 VFs", fixedCycles("held-cycles-75s", 50, 75*time.Second, 0)},
		{
			"held-cycles-2min", "duty cycles of 130 s, each stretch off by up to a tenth, 30 VFs",
			fixedCycles("held-cycles-2min", 30, 130*time.Second, 0.1),
		},
		{
			"held-lognormal-10s", "log-normal bursts of 10 s, 28 VFs",
			bursts("held-lognormal-10s", 28, 0, logNormal(1, 10*time.Second), logNormal(1, 25*time.Second), 0.29),
		},
		{
			"held-lognormal-50s", "log-normal bursts of 50 s, 36 VFs",
			bursts("held-lognormal-50s", 36, 0.05, logNormal(1.2, 50*time.Second), logNormal(0.8, 100*time.Second), 0.33),
		},
		{
			"held-tails-20s", "heavy-tailed bursts of 20 s over a tenth, 20 VFs",
			bursts("held-tails-20s", 20, 0, workload.Pareto(1.4, 20*time.Second), workload.Exponential(50*time.Second), 0.28),
		},
		{
			"held-tails-3min", "heavy-tailed bursts of 3 min, 40 VFs",
			bursts("held-tails-3min", 40, 0.05, workload.Pareto(1.6, 3*time.Minute), workload.Pareto(1.6, 4*time.Minute), 0.43),
		},
		{
			"held-two-kinds", "bursts of 6 s or of 80 s at random, 30 VFs",
			bursts("held-two-kinds", 30, 0, twoKinds, workload.Exponential(70*time.Second), 0.3),
		},
		{"held-jobs", "jobs of 35 to 200 s, of one length for each VM, after any time, 24 VFs", jobs},
		{"held-mixed", "a quarter of the VMs each: cycles of a minute, heavy tails, steady, days of 20 min; 36 VFs", heldMixed},
		{"held-steps", "levels that jump every minute or two, 44 VFs", jumps},
	}
}

// logNormal stretches have a median and a long but thin tail; sigma is the standard deviation of their logarithm.
func logNormal(sigma float64, mean time.Duration) workload.Draw {
	mu := math.Log(float64(mean)) - sigma*sigma/2
	return func(r *rand.Rand) time.Duration { return time.Duration(math.Exp(mu + sigma*r.NormFloat64())) }
}

func twoKinds(r *rand.Rand) time.Duration {
	if r.Float64() < 0.6 {
		return 6 * time.Second
	}
	return 80 * time.Second
}

// fixedCycles makes duty cycles of one length; each stretch varies by up to the share off of itself.
func fixedCycles(name string, vfs int, cycle time.Duration, off float64) func(uint64) *Workload {
	return func(seed uint64) *Workload {
		r := rand.New(rand.NewPCG(seed, 0x6379636c65))
		return build(name, vfs, func(i int) (string, workload.Shape) {
			group, level := group(i)
			share := 0.3 + 0.4*r.Float64()
			on := time.Duration(share * float64(cycle))
			if off == 0 {
				return group, workload.Duty{High: level, On: on, Off: cycle - on, Phase: time.Duration(r.Float64() * float64(cycle))}
			}
			around := func(d time.Duration) workload.Draw {
				return workload.Uniform(time.Duration((1-off)*float64(d)), time.Duration((1+off)*float64(d)))
			}
			return group, workload.NewBursts(streamOf(seed, i), level, 0, around(on), around(cycle-on), share)
		})
	}
}

// bursts makes on/off sources that send the share low of their level between bursts.
func bursts(name string, vfs int, low float64, on, off workload.Draw, busy float64) func(uint64) *Workload {
	return func(seed uint64) *Workload {
		return build(name, vfs, func(i int) (string, workload.Shape) {
			group, level := group(i)
			return group, workload.NewBursts(streamOf(seed, i), level, level*low, on, off, busy)
		})
	}
}

func shortOverSteady(seed uint64) *Workload {
	return build("short-7s", 25, func(i int) (string, workload.Shape) {
		if i%2 == 0 {
			return "steady", workload.Flat(20e3 + 400*float64(i))
		}
		return "short", workload.NewBursts(streamOf(seed, i), 150e3, 1e3,
			workload.Uniform(6*time.Second, 8*time.Second), workload.Exponential(40*time.Second), 0.15)
	})
}

func changing(seed uint64) *Workload {
	fast, slow := fixedCycles("changing", 40, 30*time.Second, 0)(seed), fixedCycles("changing", 40, 4*time.Minute, 0)(seed+1)
	return build("changing", 40, func(i int) (string, workload.Shape) {
		group, _ := group(i)
		return group, Stages{{0, fast.VMs[i].PPS}, {7 * time.Minute, slow.VMs[i].PPS}, {14 * time.Minute, fast.VMs[i].PPS}}
	})
}

func jobs(seed uint64) *Workload {
	return build("held-jobs", 24, func(i int) (string, workload.Shape) {
		_, level := group(i)
		job := time.Duration((35 + 165*workload.Unit(seed+7, uint64(i))) * float64(time.Second))
		return fmt.Sprintf("%.0fs", job.Seconds()/50), workload.NewBursts(streamOf(seed, i), level*(0.6+0.8*workload.Unit(seed, uint64(i))), 500,
			workload.Uniform(job*9/10, job*11/10), workload.Exponential(5*time.Minute), 0.25)
	})
}

func heldMixed(seed uint64) *Workload {
	return build("held-mixed", 36, func(i int) (string, workload.Shape) {
		_, level := group(i / 4)
		switch i % 4 {
		case 0:
			return "cycles", workload.Duty{
				High: level, Low: level / 10, On: 25 * time.Second, Off: 35 * time.Second,
				Phase: phaseOf(seed, i, time.Minute),
			}
		case 1:
			return "tails", workload.NewBursts(streamOf(seed, i), level, level/20,
				workload.Pareto(1.6, 25*time.Second), workload.Pareto(1.6, 45*time.Second), 0.36)
		case 2:
			return "steady", workload.Flat(level / 2)
		}
		return "days", workload.Wave{Mean: level / 2, Swing: 0.9, Period: 20 * time.Minute, Crest: phaseOf(seed, i, 20*time.Minute)}
	})
}

func jumps(seed uint64) *Workload {
	return build("held-steps", 44, func(i int) (string, workload.Shape) {
		return "steps", &workload.Walk{Low: 4e3, High: 150e3, Every: workload.Uniform(time.Minute, 2*time.Minute), Seed: streamOf(seed, i)}
	})
}
