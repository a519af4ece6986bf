package scenario

import (
	"slices"

	"sluice/internal/model"
)

// LearnedStat is what a policy knew of the bursts of a group's VMs.
type LearnedStat struct {
	Group   string  `json:"group"`
	VMs     int     `json:"vms"`             // that are there
	Known   int     `json:"known"`           // of them, those whose bursts are known
	Burst   float64 `json:"burst_seconds"`   // how long one lasts, the median over these VMs
	Between float64 `json:"between_seconds"` // how long the time between lasts, likewise
	Seen    int     `json:"seen"`            // bursts seen from start to end, of all of them together
}

// learned is what the policy knows now; groups of which it knows nothing are left out.
func (p *phases) learned() []LearnedStat {
	known := map[model.VMID]model.Bursts{}
	for _, r := range p.h.engine.Core.View().Target.Reasons {
		if r.Bursts.Seen > 0 {
			known[r.VM] = r.Bursts
		}
	}
	if len(known) == 0 {
		return nil
	}
	type sums struct {
		LearnedStat
		burst, between []float64
	}
	groups := make([]sums, len(p.h.s.VMs))
	for i := range p.h.members {
		mb := &p.h.members[i]
		if mb.vm == nil {
			continue
		}
		g := &groups[p.groupOf(mb)]
		g.VMs++
		if b, ok := known[mb.vm.ID]; ok {
			g.Known, g.Seen = g.Known+1, g.Seen+b.Seen
			g.burst, g.between = append(g.burst, b.High), append(g.between, b.Low)
		}
	}
	var out []LearnedStat
	for i := range groups {
		if g := &groups[i]; g.Known > 0 {
			g.Group, g.Burst, g.Between = p.h.s.VMs[i].Name, median(g.burst), median(g.between)
			out = append(out, g.LearnedStat)
		}
	}
	return out
}

// median sorts what it is given; of an even number it is the mean of the two in the middle.
func median(list []float64) float64 {
	slices.Sort(list)
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2
}
