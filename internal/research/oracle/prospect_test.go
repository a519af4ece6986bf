package oracle

import "slices"

// prospect is what a VM can expect from a tick on, as far as the samples before it show, if it pays a price for every second with a VF and
// does what is best for itself.
type prospect struct {
	lead float64 // packets that it is better off with a VF than without
	plug float64 // packets that a plug costs
}

// known are VMs whose future is known, with certainty or as a process.
type known interface {
	// solve returns what the VMs gain together, from the first tick to the last, when a VF costs
	// price packets/s. It reports the prospect of each VM at every tick, the last tick first.
	solve(price float64, c Charge, report func(t, vm int, p prospect)) float64
}

// certain is a VM whose rates are known in advance, in packets/s by tick.
type certain struct {
	vm  int
	pps []float64
}

func (x *certain) solve(price float64, c Charge, report func(t, vm int, p prospect)) float64 {
	with, without := 0.0, 0.0
	for t, pps := range slices.Backward(x.pps) {
		p := prospect{lead: pps - price + with - without, plug: c.Risk + c.Swap*pps}
		report(t, x.vm, p)
		if t == 0 {
			p.plug = 0
		}
		with, without = without+max(p.lead, 0), without+max(p.lead-p.plug, 0)
	}
	return without
}

// likely are VMs of one process, each with a history of its own.
type likely struct {
	process
	vms []int
	at  [][]moment // by VM, then by tick
}

func (l *likely) solve(price float64, c Charge, report func(t, vm int, p prospect)) float64 {
	v := l.values(price, c)
	for t := len(l.at[0]) - 1; t > 0; t-- {
		v.back(t)
		for i, vm := range l.vms {
			report(t, vm, v.now[v.state(l.at[i][t-1])]) // a sample shows the second before it
		}
	}
	gain := 0.0
	for i, vm := range l.vms {
		s := v.state(l.at[i][0]) // the first sample shows the present
		lead := l.process[l.at[i][0].phase].level - price + v.with[s] - v.without[s]
		report(0, vm, prospect{lead: lead})
		gain += v.without[s] + max(lead, 0)
	}
	return gain
}

// values are what a VM is worth from a tick on, by its state at the last sample: its phase, and its age in that.
type values struct {
	process
	price         float64
	c             Charge
	first         []int     // number of each phase's state of age 1
	with, without []float64 // packets, for a VM with a VF and for one without
	now           []prospect
	spare         [2][]float64
}

func (p process) values(price float64, c Charge) *values {
	v := &values{process: p, price: price, c: c}
	n := 0
	for _, f := range p {
		v.first = append(v.first, n)
		n += len(f.ends)
	}
	v.with, v.without, v.now = make([]float64, n), make([]float64, n), make([]prospect, n)
	v.spare = [2][]float64{make([]float64, n), make([]float64, n)}
	return v
}

func (v *values) state(m moment) int {
	return v.first[m.phase] + min(m.age, len(v.process[m.phase].ends)) - 1
}

// back goes back from the tick after t to tick t, by Bellman's equation.
func (v *values) back(t int) {
	with, without := v.spare[0], v.spare[1]
	for k, f := range v.process {
		var next, idle, pps float64 // if the phase ends: worth with a VF and without, and packets/s
		for j, share := range f.next {
			if share > 0 {
				next += share * (v.process[j].level - v.price + v.with[v.first[j]])
				idle += share * v.without[v.first[j]]
				pps += share * v.process[j].level
			}
		}
		from, to := 1, min(len(f.ends), t)
		if f.start { // it began with the run
			from = to
		}
		for age := from; age <= to; age++ {
			end, s := f.ends[age-1], v.first[k]+age-1
			stay := s
			if age < len(f.ends) {
				stay++
			}
			hold := (1-end)*(f.level-v.price+v.with[stay]) + end*next
			not := (1-end)*v.without[stay] + end*idle
			p := prospect{lead: hold - not, plug: v.c.Risk + v.c.Swap*((1-end)*f.level+end*pps)}
			v.now[s], with[s], without[s] = p, max(hold, not), max(hold-p.plug, not)
		}
	}
	v.spare, v.with, v.without = [2][]float64{v.with, v.without}, with, without
}
