package scenario

import (
	"slices"

	"sluice/internal/model"
)

// LearnedStat is what a policy has learned about the bursts of a group's VMs.
type LearnedStat struct {
	Group   string  `json:"group"`
	VMs     int     `json:"vms"`             // present
	Known   int     `json:"known"`           // VMs whose bursts are known
	Burst   float64 `json:"burst_seconds"`   // length of a burst, the median over these VMs
	Between float64 `json:"between_seconds"` // time between two bursts, the median over these VMs
	Seen    int     `json:"seen"`            // bursts of all VMs seen from start to end
}

// learned returns what the policy knows now, without groups that it knows nothing about.
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

// median sorts its argument and returns the median.
func median(list []float64) float64 {
	slices.Sort(list)
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2
}
