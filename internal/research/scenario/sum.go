package scenario

import (
	"time"

	"sluice/internal/research/oracle"
)

// newResult makes a Result that describes the scenario.
func (s *Scenario) newResult() *Result {
	r := &Result{
		File: s.file, Text: s.Text, Duration: s.Duration, Sample: s.Sample, Seed: s.Seed, Hosts: s.Hosts, VMs: s.count(),
	}
	for _, p := range s.PFs {
		r.VFs += p.VFs
	}
	return r
}

// result sums up the results of the hosts.
func (j *job) result() *Result {
	s := j.s
	r := s.newResult()
	r.Origin, r.ShowHolders, r.Worth, r.Charge.Swap = s.Origin, s.Show.Holders, s.worthCounts(), s.Charge.Swap.Seconds()
	for i := range j.hosts {
		r.Charge.Risk += j.hosts[i].truth.risk / float64(s.Hosts)
	}
	if !j.o.NoOptimum {
		r.Optimum = j.best()
	}
	for p := range s.Policies {
		r.Policies = append(r.Policies, j.outcome(p, r.Optimum))
	}
	r.Plot = j.plot()
	return r
}

// best sums up the optima. Their benefit follows from their own sums, so that each is 100 % of itself however its rates were averaged.
func (j *job) best() *OptimumStat {
	o := &OptimumStat{Resolution: j.hosts[0].truth.rates.Step}
	for i := range j.hosts {
		h := &j.hosts[i]
		o.Charged.add(&h.paid, h.truth.risk)
		o.Free.add(&h.free, 0)
	}
	return o
}

func (b *BestStat) add(x *best, risk float64) {
	b.Value += x.Value
	b.Upper += x.Upper
	b.Moves += x.Moves
	b.Benefit += x.Value + risk*float64(x.Moves)
}

func (g *gain) sum() float64 {
	out := 0.0
	for _, x := range g.bits {
		out += x
	}
	return out
}

// outcome sums up one policy's results over the hosts.
func (j *job) outcome(p int, o *OptimumStat) Outcome {
	s := j.s
	pol := s.Policies[p]
	out := Outcome{Policy: pol.Name, Label: pol.Label, Interval: pol.Interval.Seconds(), Params: pol.Params}
	charged, on, there := 0.0, time.Duration(0), time.Duration(0)
	for i := range j.hosts {
		h := &j.hosts[i]
		run, g := &h.runs[p], &h.gains[p]
		moves, plugs, unplugs := counts(run.log, s.count())
		out.Moves += moves
		out.Unplugs += unplugs
		out.Failed += run.failed
		out.Benefit += g.sum()
		charged += h.truth.risk * float64(moves)
		for v, m := range s.members() {
			st := s.vmStat(&m, i, plugs[v], g, &h.gains[len(s.Policies)], v)
			out.VMs = append(out.VMs, st)
			out.Plugs += plugs[v]
			on, there = on+g.on[v], there+s.present(m.group)
		}
		if i == 0 {
			out.Phases, out.Decisions = run.phases, run.decisions
		}
	}
	out.OnVF = ratio(float64(on), float64(there))
	out.MovesPerHour = float64(out.Moves) / s.Duration.Hours() / float64(len(out.VMs))
	out.extremes()
	if o != nil {
		out.Gross = 100 * ratio(out.Benefit, o.Free.Value)
		out.Net = 100 * ratio(out.Benefit-charged, o.Charged.Value)
	}
	return out
}

func (s *Scenario) vmStat(m *member, host, plugs int, g, best *gain, v int) VMStat {
	return VMStat{
		VM: m.name, Host: host, Plugs: plugs, PlugRate: float64(plugs) / s.Duration.Hours(),
		OnVF: ratio(float64(g.on[v]), float64(s.present(m.group))), Packets: g.offer[v],
		Carried: ratio(g.bits[v], g.offer[v]), Best: ratio(best.bits[v], g.offer[v]),
	}
}

// present returns how long VMs of the group are there.
func (s *Scenario) present(g *Group) time.Duration {
	until := s.Duration
	if g.Until > 0 {
		until = min(until, g.Until)
	}
	return max(0, until-g.From)
}

// extremes finds the VM with most plugs and the one that lost most.
func (o *Outcome) extremes() {
	for i, v := range o.VMs {
		if i == 0 || v.Plugs > o.Busiest.Plugs {
			o.Busiest = v
		}
		if i == 0 || (v.Best-v.Carried)*v.Packets > (o.Worst.Best-o.Worst.Carried)*o.Worst.Packets {
			o.Worst = v
		}
	}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// counts returns plugs and unplugs, and how many plugs were moves. The first plug of every VF ever in use is not a move.
func counts(log oracle.Log, vms int) (moves int, plugs []int, unplugs int) {
	plugs = make([]int, vms)
	open, peak, all := 0, 0, 0
	for _, e := range log {
		if e.On {
			plugs[e.VM]++
			all++
			open++
			peak = max(peak, open)
		} else {
			unplugs++
			open--
		}
	}
	return all - peak, plugs, unplugs
}

// plot gathers the data of a report's plots.
func (j *job) plot() *Plot {
	h := &j.hosts[0]
	p := &Plot{Rates: h.truth.rates.PPS}
	for _, m := range j.s.members() {
		p.VMs, p.Groups = append(p.VMs, m.name), append(p.Groups, m.group.Name)
	}
	for i := range h.runs {
		p.Names, p.Logs = append(p.Names, j.s.Policies[i].Label), append(p.Logs, h.runs[i].log)
		p.Curves = append(p.Curves, h.gains[i].curve)
	}
	if !j.o.NoOptimum {
		p.Names, p.Logs = append(p.Names, "optimum"), append(p.Logs, delayed(h.paid.Log, j.s.Charge.Swap))
		p.Curves = append(p.Curves, h.gains[len(h.runs)].curve)
	}
	return p
}
