package oracle

import "time"

// Sample returns the rates of a workload at every step, 0 for a VM that is not there.
func Sample(w *Workload, step, length time.Duration) *Rates {
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
