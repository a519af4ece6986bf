package scenario

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"sluice/internal/research/trace"
	"sluice/internal/research/workload"
)

// vmLoad is one VM's load, a sim.Load: a traffic shape, CPU use, and changes of both over time.
type vmLoad struct {
	start time.Time
	parts []part
}

// part is a load from some time on.
type part struct {
	from       time.Duration
	pps        workload.Shape
	player     player // instead of pps
	packet     float64
	cpu        float64
	compute    workload.Shape // CPUs of work besides the network; nil: none
	contention float64
	copy       float64 // bytes after which it stops; 0: never
}

// player plays a trace or a recording.
type player interface {
	At(t time.Time) (pps, bytesPerSecond, cpus float64)
	Known(t time.Time) bool
}

// at returns the part that applies at a time.
func (l *vmLoad) at(since time.Duration) *part {
	i := len(l.parts) - 1
	for i > 0 && l.parts[i].from > since {
		i--
	}
	return &l.parts[i]
}

// At implements sim.Load.
func (l *vmLoad) At(t time.Time) (pps, bytesPerSecond, cpus float64) { return l.after(t.Sub(l.start)) }

// after returns the load after some time.
func (l *vmLoad) after(since time.Duration) (pps, bytesPerSecond, cpus float64) {
	p := l.at(since)
	if p.player != nil {
		pps, bytesPerSecond, cpus = p.player.At(l.start.Add(since))
		if bytesPerSecond == 0 {
			bytesPerSecond = pps * p.packet
		}
		return pps, bytesPerSecond, cpus
	}
	pps = p.pps.Level(since)
	if pps > 0 {
		cpus = p.cpu
	}
	if p.compute != nil {
		if busy := p.compute.Level(since); busy > 0 {
			cpus += busy
			pps *= 1 - p.contention
		}
	}
	return pps, pps * p.packet, cpus
}

// known reports whether the load at t is known, which a trace may not have.
func (l *vmLoad) known(t time.Time) bool {
	p := l.at(t.Sub(l.start))
	return p.player == nil || p.player.Known(t)
}

// newLoad makes the load of the n-th VM of a group. Loads keep cursors, so every run needs its own.
func (s *Scenario) newLoad(g *Group, n int, start time.Time, seed uint64) *vmLoad {
	name := g.vmName(n)
	if g.past != nil {
		return &vmLoad{start: start, parts: []part{{player: &past{p: s.replay, v: g.past, start: start}}}}
	}
	l := &vmLoad{start: start, parts: []part{g.Load.part(n, start, seedOf(seed, name, 0))}}
	for i := range s.Timeline {
		if c := &s.Timeline[i]; matches(c.VMs, g, name) {
			p := c.Load.part(n, start, seedOf(seed, name, uint64(i)+1))
			p.from = c.At
			l.parts = append(l.parts, p)
		}
	}
	return l
}

// seedOf gives every VM and every change its own random stream, independent of what else is in the scenario.
func seedOf(seed uint64, name string, change uint64) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64() ^ seed*0x9e3779b97f4a7c15 ^ change<<32
}

func (l *Load) part(n int, start time.Time, seed uint64) part {
	p := part{packet: l.Packet, cpu: l.CPU, contention: l.Contention, copy: l.CopyMB * 1e6}
	if l.Shape == "trace" && l.set != nil {
		p.player = &trace.Player{Series: l.series(n), Start: start}
		return p
	}
	p.pps = l.shape(n, seed)
	if l.Compute > 0 {
		p.compute = workload.Flat(l.Compute)
		if l.ComputeOn > 0 {
			p.compute = workload.Duty{High: l.Compute, On: l.ComputeOn, Off: l.ComputeOff, Phase: l.Phase + time.Duration(n)*l.Stagger}
		}
	}
	return p
}

func (l *Load) shape(n int, seed uint64) workload.Shape {
	r := rand.New(rand.NewPCG(seed, 0x7363656e)) //nolint:gosec // loads need no secrets
	scale := 1 + l.Spread*(2*r.Float64()-1)
	high, low := l.PPS*scale, l.Low*scale
	phase := l.Phase + time.Duration(n)*l.Stagger
	var sh workload.Shape
	switch l.Shape {
	case "on-off":
		sh = workload.NewBursts(seed, high, low, workload.Exponential(l.On), workload.Exponential(l.Off), l.busy())
	case "pareto":
		sh = workload.NewBursts(seed, high, low, workload.Pareto(l.Alpha, l.On), workload.Pareto(l.Alpha, l.Off), l.busy())
	case "diurnal":
		sh = workload.Wave{Mean: high, Swing: l.Swing, Period: l.Period, Crest: phase}
	case "flash":
		sh = workload.Flash{Base: low, Peak: high, At: l.At + time.Duration(n)*l.Stagger, Rise: l.Rise, Hold: l.Hold, Fall: l.Fall}
	case "duty":
		sh = workload.Duty{High: high, Low: low, On: l.On, Off: l.Off, Phase: phase}
	case "walk":
		sh = &workload.Walk{Low: low, High: high, Every: workload.Exponential(l.Off), Seed: seed}
	default:
		sh = workload.Flat(high)
	}
	if l.Jitter > 0 {
		sh = workload.Jitter{Shape: sh, Share: l.Jitter, Every: time.Second, Seed: seed}
	}
	return sh
}

// busy returns the share of time that an on/off source is on.
func (l *Load) busy() float64 { return float64(l.On) / float64(l.On+l.Off) }
