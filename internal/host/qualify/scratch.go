package qualify

import (
	"fmt"
	"slices"
	"time"

	"sluice/api/v1"
)

// scratchTimes are the timings of a VM's moves, in display order.
var scratchTimes = []string{api.TimePlug, api.TimeAttach, api.TimeGuest, api.TimeUnplug, api.TimeDetach}

// judgeScratch adds the measurements with a VM to the report.
func judgeScratch(q *api.Qualification, s *Scratch) {
	q.Scratch = s.VM
	times := map[string][]time.Duration{}
	for i := range s.Moves {
		m := &s.Moves[i]
		whole := api.TimeUnplug
		if m.Plug {
			whole = api.TimePlug
		}
		times[whole] = append(times[whole], m.Took)
		for name, took := range m.Steps {
			times[name] = append(times[name], took)
		}
	}
	for _, name := range scratchTimes {
		q.Times = appendTiming(q.Times, name, times[name])
	}
	q.Moves = moveCost(s.Moves)
	q.Paths = paths(s.Paths)
	q.HostCPU = hostCPU(q.Paths)
	q.Boosts = boosts(s.Under)
	q.Boost = boostLine(q.Boosts)
	for i := range s.Paths {
		p := &s.Paths[i]
		if p.Error != "" {
			q.Failed = append(q.Failed, fmt.Sprintf("%s, %d bytes: %s", pathName(p.VF), p.Size, p.Error))
		}
		if p.NoCPU != "" && !slices.Contains(q.Failed, noCPU+p.NoCPU) {
			q.Failed = append(q.Failed, noCPU+p.NoCPU)
		}
	}
	for i := range s.Under {
		if l := &s.Under[i]; l.Error != "" {
			q.Failed = append(q.Failed, fmt.Sprintf("%s, %d bytes beside %.0f packets/s: %s", pathName(l.VF), l.Payload, l.Offered, l.Error))
		}
	}
}

const noCPU = "what packets cost the host in CPU time: "

func pathName(vf bool) string {
	if vf {
		return "VF"
	}
	return "virtio"
}

// moveCost summarizes the losses of moves; nil: nothing was measured.
func moveCost(moves []Move) *api.MoveCost {
	var c api.MoveCost
	var lost float64
	for i := range moves {
		m := &moves[i]
		if m.Rate <= 0 || m.Sent == 0 {
			continue
		}
		seconds := float64(m.Lost) / m.Rate
		c.Moves++
		c.Rate += m.Rate
		c.Lost += m.Lost
		lost += seconds
		c.LostMost = max(c.LostMost, seconds)
	}
	if c.Moves == 0 {
		return nil
	}
	c.Rate /= float64(c.Moves)
	c.LostMean = lost / float64(c.Moves)
	return &c
}

// paths combines the figures of both paths by packet size. Sizes without a figure for both are left out.
func paths(list []Path) (out []api.PathBySize) {
	figures := map[bool]map[int]api.PathFigure{false: {}, true: {}}
	for i := range list {
		p := &list[i]
		if f, ok := figureOf(p); ok {
			figures[p.VF][p.Size] = f
		}
	}
	for size, virtio := range figures[false] {
		vf, both := figures[true][size]
		if !both {
			continue
		}
		out = append(out, api.PathBySize{Size: size, Virtio: virtio, VF: vf, Boost: boost(virtio.Median, vf.Median)})
	}
	slices.SortFunc(out, func(a, b api.PathBySize) int { return a.Size - b.Size })
	return out
}

func figureOf(p *Path) (f api.PathFigure, ok bool) {
	if len(p.Trips) == 0 {
		return f, false
	}
	s := slices.Sorted(slices.Values(p.Trips))
	f.Median, f.P99 = s[len(s)/2].Seconds(), s[min(len(s)-1, len(s)*99/100)].Seconds()
	if p.During > 0 && p.Sent > 0 {
		f.Packets = 2 * float64(p.Done) / p.During.Seconds()
		f.Lost = float64(max(p.Sent-p.Done, 0)) / float64(p.Sent)
		if p.NoCPU == "" && p.Done > 0 {
			cpu := p.CPU.Seconds() / float64(2*p.Done)
			f.HostCPU = &cpu
		}
	}
	return f, true
}
