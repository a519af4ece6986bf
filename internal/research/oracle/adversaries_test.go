package oracle

import (
	"time"

	"sluice/internal/research/workload"
)

// Adversaries lists loads that are hard for policies: periods close to their time constants, crowds that arrive all at once, and bursts
// that end as soon as a move was made for them. Policies must not break on them, but must not be tuned on them either.
func Adversaries() []Named {
	return []Named{
		{"beat-20s", "half on, half off, cycles of 20 s at random phases, 40 VFs", beat("beat-20s", 10*time.Second)},
		{"beat-1min", "likewise, cycles of 1 min", beat("beat-1min", 30*time.Second)},
		{"beat-2min", "likewise, cycles of 2 min", beat("beat-2min", time.Minute)},
		{"beat-4min", "likewise, cycles of 4 min", beat("beat-4min", 2*time.Minute)},
		{"duty-fast", "duty cycles of fixed length between 20 s and 4 min, 40 VFs", dutyFast},
		{"tease", "bursts of 20 to 40 s, every few minutes, over a steady middle, 20 VFs", tease},
		{"hot-potato", "ten times the load for a minute, at one VM after the other, 4 VFs", hotPotato},
		{"stampede", "40 VMs flash at once, three times, 32 VFs", stampede},
		{"scarce-fast", "heavy-tailed bursts of 20 s and 8 VFs", scarceFast},
		{"waves", "sines of 5 min at random phases, 50 VFs", waves},
		{"jumble", "every kind of load at once, 32 VFs", jumble},
		{"creep", "slow random ramps across each other, 50 VFs", creep},
	}
}

func beat(name string, half time.Duration) func(uint64) *Workload {
	return func(seed uint64) *Workload {
		return build(name, 40, func(i int) (string, workload.Shape) {
			group, level := group(i)
			return group, workload.Duty{High: level, On: half, Off: half, Phase: phaseOf(seed, i, 2*half)}
		})
	}
}

func phaseOf(seed uint64, i int, cycle time.Duration) time.Duration {
	return time.Duration(workload.Unit(workload.Mix(seed), uint64(i)) * float64(cycle))
}

func dutyFast(seed uint64) *Workload {
	return build("duty-fast", 40, cycles(seed, 20*time.Second, 4*time.Minute))
}

func tease(seed uint64) *Workload {
	return build("tease", 20, func(i int) (string, workload.Shape) {
		if i < 40 {
			return "steady", workload.Flat(40e3 + 500*float64(i))
		}
		return "tease", workload.NewBursts(streamOf(seed, i), 120e3, 2e3,
			workload.Uniform(20*time.Second, 40*time.Second), workload.Exponential(4*time.Minute), 0.1)
	})
}

func hotPotato(seed uint64) *Workload {
	return build("hot-potato", 4, func(i int) (string, workload.Shape) {
		return "round", Sum{workload.Flat(10e3), workload.Duty{
			High: 90e3, On: time.Minute, Off: 19 * time.Minute,
			Phase: phaseOf(seed, i, 20*time.Minute),
		}}
	})
}

func stampede(seed uint64) *Workload {
	return build("stampede", 32, func(i int) (string, workload.Shape) {
		name, level := group(i)
		sum := Sum{workload.Flat(level)}
		for n := range 3 {
			if workload.Unit(workload.Mix(seed+uint64(n)), uint64(i)) < 0.4 {
				at := time.Duration(2+6*n) * time.Minute
				sum = append(sum, workload.Flash{Peak: 100e3, At: at, Rise: 5 * time.Second, Hold: 40 * time.Second, Fall: 20 * time.Second})
			}
		}
		return name, sum
	})
}

func scarceFast(seed uint64) *Workload {
	return build("scarce-fast", 8, func(i int) (string, workload.Shape) {
		name, level := group(i)
		return name, workload.NewBursts(streamOf(seed, i), level, level/10,
			workload.Pareto(1.3, 20*time.Second), workload.Pareto(1.3, 60*time.Second), 0.25)
	})
}

func waves(seed uint64) *Workload {
	return build("waves", 50, func(i int) (string, workload.Shape) {
		name, level := group(i)
		return name, workload.Wave{Mean: level, Swing: 0.9, Period: 5 * time.Minute, Crest: phaseOf(seed, i, 5*time.Minute)}
	})
}

// jumble takes each VM from a different workload of Ten.
func jumble(seed uint64) *Workload {
	var from []*Workload
	for _, n := range Ten() {
		from = append(from, n.Make(seed))
	}
	return build("jumble", 32, func(i int) (string, workload.Shape) {
		w := from[i%len(from)]
		return w.Name, w.VMs[i].PPS
	})
}

func creep(seed uint64) *Workload {
	return build("creep", 50, func(i int) (string, workload.Shape) {
		long := 10*time.Minute + phaseOf(seed+1, i, 30*time.Minute)
		return "creep", workload.Wave{Mean: 50e3, Swing: 0.5, Period: long, Crest: phaseOf(seed, i, long)}
	})
}
