package oracle

import (
	"slices"
	"time"

	"sluice/internal/research/workload"
)

// Rates are the true packet rates of VMs over time, each lasting for one Step.
type Rates struct {
	Step time.Duration
	VMs  []string
	PPS  [][]float64 // by tick, then by VM
}

// Sample takes the rates of a workload at every step. A VM that is not there has 0.
func Sample(w *workload.Workload, step, length time.Duration) *Rates {
	r := &Rates{Step: step, PPS: make([][]float64, int(length/step))}
	all := make([]float64, len(r.PPS)*len(w.VMs))
	for t := range r.PPS {
		r.PPS[t], all = all[:len(w.VMs):len(w.VMs)], all[len(w.VMs):]
		since := time.Duration(t) * step
		for i := range w.VMs {
			v := &w.VMs[i]
			if v.PPS != nil && since >= v.From && (v.Until == 0 || since < v.Until) {
				r.PPS[t][i] = v.PPS.Level(since)
			}
		}
	}
	for i := range w.VMs {
		r.VMs = append(r.VMs, w.VMs[i].Name)
	}
	return r
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
