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

// Median returns the median of the nonzero rates in packets/s.
func (r *Rates) Median() float64 {
	all := slices.DeleteFunc(slices.Concat(r.PPS...), func(x float64) bool { return x <= 0 })
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// Length returns how long the rates last.
func (r *Rates) Length() time.Duration { return time.Duration(len(r.PPS)) * r.Step }
