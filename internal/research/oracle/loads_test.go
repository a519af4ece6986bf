package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"sluice/internal/research/workload"
)

// Named makes one of the workloads that policies are compared on.
type Named struct {
	Name string
	Text string
	Make func(seed uint64) *Workload
}

// length is how long the published table's runs lasted. The paper does not state it; the 3.3 moves per hour and VM of fair, with 63 VFs
// for 100 VMs, correspond to three rounds of 300 s in 20 minutes.
const length = 20 * time.Minute

// vms is the size of every workload of the table.
const vms = 100

// levels are the packet rates of FlexVF's four groups of 25 (section 5.2).
var levels = [4]float64{20e3, 40e3, 80e3, 100e3}

// Ten lists the main workloads. The first six are those of the published table; parameters that it does not state are chosen to
// reproduce its baselines. The other four are ours.
func Ten() []Named {
	return []Named{
		{"constant", "four groups of 25 at 20, 40, 80 and 100 kpps, 63 VFs", constant},
		{"bursty-seconds", "four groups that send for seconds, two fifths of the time, 32 VFs", burstySeconds},
		{"bursty-slow", "four groups that send for a minute, three quarters of the time, 63 VFs", burstySlow},
		{"diurnal", "days of 40 minutes with crests anywhere, 63 VFs", diurnal},
		{"flips", "26 VMs in two halves that change places every 10 s, 50 VFs", flips},
		{"ties", "26 VMs within 3 % of each other for 13 VFs of 50", ties},
		{"flash", "a flash crowd on every fifth VM, one after the other, 32 VFs", flash},
		{"duty", "cycles of fixed length between 6 and 20 min, 40 VFs", duty},
		{"walk", "rates that jump to anything every few minutes, 50 VFs", walk},
		{"scarce", "heavy-tailed bursts and 8 VFs", scarce},
	}
}

// build fills a workload with VMs; shape gives each its group and packet rate.
func build(name string, vfs int, shape func(i int) (string, workload.Shape)) *Workload {
	w := &Workload{Name: name, VFs: vfs, For: length, VMs: make([]VM, vms)}
	for _, n := range slices.Concat(Ten(), Adversaries(), Rhythms(), HeldOut()) {
		if n.Name == name {
			w.Text = n.Text
		}
	}
	for i := range w.VMs {
		group, s := shape(i)
		w.VMs[i] = VM{Name: fmt.Sprintf("vm%03d", i), Group: group, PPS: s}
	}
	return w
}

// streamOf returns the seed of the i-th VM.
func streamOf(seed uint64, i int) uint64 { return workload.Mix(seed) + uint64(i) }

func group(i int) (string, float64) {
	level := levels[i%len(levels)]
	return fmt.Sprintf("%gk", level/1e3), level
}

func constant(uint64) *Workload {
	return build("constant", 63, func(i int) (string, workload.Shape) {
		name, level := group(i)
		return name, workload.Flat(level)
	})
}

// burstySeconds sends for 13 s at a time, slightly more often in groups with a higher level, so that the median rate is clearly the
// third group's.
func burstySeconds(seed uint64) *Workload {
	return build("bursty-seconds", 32, bursty(seed, 13, 19, 1.2))
}

// burstySlow is the same with more than a minute on and half a minute off.
func burstySlow(seed uint64) *Workload {
	return build("bursty-slow", 63, bursty(seed, 65, 26, 1.5))
}

// bursty VMs are on and off for heavy-tailed times; off becomes shorter by less from group to group.
func bursty(seed uint64, on, off, less float64) func(int) (string, workload.Shape) {
	return func(i int) (string, workload.Shape) {
		name, level := group(i)
		off := off - less*float64(i%len(levels))
		return name, workload.NewBursts(streamOf(seed, i), level, 0,
			workload.Pareto(1.75, seconds(on)), workload.Pareto(1.75, seconds(off)), on/(on+off))
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func diurnal(seed uint64) *Workload {
	return build("diurnal", 63, func(i int) (string, workload.Shape) {
		name, level := group(i)
		return name, workload.Wave{
			Mean: level, Swing: 0.8, Period: 40 * time.Minute,
			Crest: time.Duration(workload.Unit(seed, uint64(i)) * float64(40*time.Minute)),
		}
	})
}

func flips(uint64) *Workload {
	const half = 10 * time.Second
	return build("flips", 50, func(i int) (string, workload.Shape) {
		switch {
		case i < 37:
			return "steady", workload.Flat(100e3)
		case i < 63:
			return "flip", workload.Duty{High: 80e3, Low: 24e3, On: half, Off: half, Phase: time.Duration(i%2) * half}
		}
		return "low", workload.Flat(33e3)
	})
}

func ties(seed uint64) *Workload {
	return build("ties", 50, func(i int) (string, workload.Shape) {
		name, level := "tie", 50e3
		switch {
		case i < 37:
			name, level = "high", 80e3
		case i >= 63:
			name, level = "low", 20e3
		}
		return name, workload.Jitter{Shape: workload.Flat(level), Share: 0.03, Every: time.Second, Seed: streamOf(seed, i)}
	})
}

func flash(seed uint64) *Workload {
	return build("flash", 32, func(i int) (string, workload.Shape) {
		name, level := group(i)
		if i%5 != 0 {
			return name, workload.Flat(level)
		}
		at := time.Duration(workload.Unit(seed, uint64(i)) * float64(length))
		return "crowd", workload.Flash{Base: 10e3, Peak: 300e3, At: at, Rise: 10 * time.Second, Hold: time.Minute, Fall: 30 * time.Second}
	})
}

func duty(seed uint64) *Workload {
	return build("duty", 40, cycles(seed, 6*time.Minute, 20*time.Minute))
}

// cycles returns duty cycles of fixed lengths between least and most.
func cycles(seed uint64, least, most time.Duration) func(int) (string, workload.Shape) {
	r := rand.New(rand.NewPCG(seed, 0x64757479))
	return func(i int) (string, workload.Shape) {
		name, level := group(i)
		cycle := least + time.Duration(r.Float64()*float64(most-least))
		on := time.Duration((0.2 + 0.6*r.Float64()) * float64(cycle))
		return name, workload.Duty{High: level, On: on, Off: cycle - on, Phase: time.Duration(r.Float64() * float64(cycle))}
	}
}

func walk(seed uint64) *Workload {
	return build("walk", 50, func(i int) (string, workload.Shape) {
		return "walk", &workload.Walk{Low: 5e3, High: 200e3, Every: workload.Exponential(4 * time.Minute), Seed: streamOf(seed, i)}
	})
}

func scarce(seed uint64) *Workload {
	return build("scarce", 8, func(i int) (string, workload.Shape) {
		name, level := group(i)
		return name, workload.NewBursts(streamOf(seed, i), level, level/10,
			workload.Pareto(1.5, 2*time.Minute), workload.Pareto(1.5, 6*time.Minute), 0.25)
	})
}
