package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Named makes one of the ten workloads of the published table.
type Named struct {
	Name string
	Text string
	Make func(seed uint64) *Workload
}

// length is how long the published table's runs lasted. It is not stated; fair's 3.3
// moves per hour and VM with 63 of 100 are three rounds of 300 s in 20 minutes.
const length = 20 * time.Minute

// vms is the size of every workload of the table.
const vms = 100

// levels are the packet rates of FlexVF's four groups of 25 (section 5.2).
var levels = [4]float64{20e3, 40e3, 80e3, 100e3}

// Ten lists the workloads that policies are compared on. The first six are the
// published table's, with parameters that it does not state chosen so that its
// baselines come out; the other four are ours.
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
func build(name string, vfs int, shape func(i int) (string, Shape)) *Workload {
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

func group(i int) (string, float64) {
	level := levels[i%len(levels)]
	return fmt.Sprintf("%gk", level/1e3), level
}

func constant(uint64) *Workload {
	return build("constant", 63, func(i int) (string, Shape) {
		name, level := group(i)
		return name, Flat(level)
	})
}

// burstySeconds: every group is on 13 s at a time and a little more often the higher its
// level, so that the median of the rates is the third group's and not a toss-up.
func burstySeconds(seed uint64) *Workload {
	return build("bursty-seconds", 32, bursty(seed, 13, 19, 1.2))
}

// burstySlow: likewise, with more than a minute on and half a minute off.
func burstySlow(seed uint64) *Workload {
	return build("bursty-slow", 63, bursty(seed, 65, 26, 1.5))
}

// bursty VMs are on and off for heavy-tailed times; off gets shorter by less per group.
func bursty(seed uint64, on, off, less float64) func(int) (string, Shape) {
	return func(i int) (string, Shape) {
		name, level := group(i)
		off := off - less*float64(i%len(levels))
		return name, NewBursts(mix(seed)+uint64(i), level, 0, Pareto(1.75, seconds(on)), Pareto(1.75, seconds(off)), on/(on+off))
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func diurnal(seed uint64) *Workload {
	return build("diurnal", 63, func(i int) (string, Shape) {
		name, level := group(i)
		return name, Wave{
			Mean: level, Swing: 0.8, Period: 40 * time.Minute,
			Crest: time.Duration(unit(seed, uint64(i)) * float64(40*time.Minute)),
		}
	})
}

func flips(uint64) *Workload {
	const half = 10 * time.Second
	return build("flips", 50, func(i int) (string, Shape) {
		switch {
		case i < 37:
			return "steady", Flat(100e3)
		case i < 63:
			return "flip", Duty{High: 80e3, Low: 24e3, On: half, Off: half, Phase: time.Duration(i%2) * half}
		}
		return "low", Flat(33e3)
	})
}

func ties(seed uint64) *Workload {
	return build("ties", 50, func(i int) (string, Shape) {
		name, level := "tie", 50e3
		switch {
		case i < 37:
			name, level = "high", 80e3
		case i >= 63:
			name, level = "low", 20e3
		}
		return name, Jitter{Shape: Flat(level), Share: 0.03, Every: time.Second, Seed: mix(seed) + uint64(i)}
	})
}

func flash(seed uint64) *Workload {
	return build("flash", 32, func(i int) (string, Shape) {
		name, level := group(i)
		if i%5 != 0 {
			return name, Flat(level)
		}
		at := time.Duration(unit(seed, uint64(i)) * float64(length))
		return "crowd", Flash{Base: 10e3, Peak: 300e3, At: at, Rise: 10 * time.Second, Hold: time.Minute, Fall: 30 * time.Second}
	})
}

func duty(seed uint64) *Workload {
	return build("duty", 40, cycles(seed, 6*time.Minute, 20*time.Minute))
}

// cycles are duty cycles of fixed lengths between least and most.
func cycles(seed uint64, least, most time.Duration) func(int) (string, Shape) {
	r := rand.New(rand.NewPCG(seed, 0x64757479))
	return func(i int) (string, Shape) {
		name, level := group(i)
		cycle := least + time.Duration(r.Float64()*float64(most-least))
		on := time.Duration((0.2 + 0.6*r.Float64()) * float64(cycle))
		return name, Duty{High: level, On: on, Off: cycle - on, Phase: time.Duration(r.Float64() * float64(cycle))}
	}
}

func walk(seed uint64) *Workload {
	return build("walk", 50, func(i int) (string, Shape) {
		return "walk", &Walk{Low: 5e3, High: 200e3, Every: Exponential(4 * time.Minute), Seed: mix(seed) + uint64(i)}
	})
}

func scarce(seed uint64) *Workload {
	return build("scarce", 8, func(i int) (string, Shape) {
		name, level := group(i)
		return name, NewBursts(mix(seed)+uint64(i), level, level/10, Pareto(1.5, 2*time.Minute), Pareto(1.5, 6*time.Minute), 0.25)
	})
}
