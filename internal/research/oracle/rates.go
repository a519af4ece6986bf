package oracle

import (
	"slices"
	"time"
)

// Rates are the true packet rates of VMs over time, each lasting for one Step.
type Rates struct {
	Step time.Duration
	VMs  []string
	PPS  [][]float64 // by tick, then by VM
}

// Median is the median of the rates that are not zero, in packets/s.
func (r *Rates) Median() float64 {
	var all []float64
	for _, row := range r.PPS {
		for _, x := range row {
			if x > 0 {
				all = append(all, x)
			}
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// Length is how long the rates last.
func (r *Rates) Length() time.Duration { return time.Duration(len(r.PPS)) * r.Step }
