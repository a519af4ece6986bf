package oracle

import "time"

// PaperSwap is FlexVF's unplug (56 ms) plus plug (640 ms), in seconds.
const PaperSwap = 0.696

// TableCharge is the published table's charge: a risk of 10 s of the median rate.
func (r *Rates) TableCharge() Charge { return Charge{Swap: PaperSwap, Risk: 10 * r.Median()} }

// Figures are what a run was worth. Those of VMs are in the order of Rates.
type Figures struct {
	Benefit float64 // packets carried by VFs
	Plugs   int
	Moves   int     // plugs beyond the first of each VF
	Net     float64 // Benefit minus the risk of the Moves
	PerVM   []VMFigures
}

// VMFigures are one VM's share of the Figures.
type VMFigures struct {
	OnVF    time.Duration // time with a VF in use
	Benefit float64       // packets
	Plugs   int
}

// Measure computes the Figures of a Log. vfs is how many VFs there were. The time that moves take is already in the Log: nobody uses the VF
// meanwhile.
func Measure(r *Rates, log Log, vfs int, c Charge) Figures {
	f := Figures{PerVM: make([]VMFigures, len(r.VMs))}
	since := make([]time.Duration, len(r.VMs))
	on := make([]bool, len(r.VMs))
	open, peak := 0, 0
	for _, e := range log {
		switch {
		case e.On && !on[e.VM]:
			on[e.VM], since[e.VM] = true, e.At
			f.Plugs++
			f.PerVM[e.VM].Plugs++
			open++
			peak = max(peak, open)
		case !e.On && on[e.VM]:
			on[e.VM] = false
			f.add(r, e.VM, since[e.VM], e.At)
			open--
		}
	}
	for i := range on {
		if on[i] {
			f.add(r, i, since[i], r.Length())
		}
	}
	// The most VFs ever in use at once were each plugged a first time.
	f.Moves = f.Plugs - min(peak, vfs)
	f.Net = f.Benefit - c.Risk*float64(f.Moves)
	return f
}

// add counts a stretch of time with a VF.
func (f *Figures) add(r *Rates, vm int, from, to time.Duration) {
	to = min(to, r.Length())
	v := &f.PerVM[vm]
	v.OnVF += max(0, to-from)
	for at := from; at < to; {
		t := int(at / r.Step)
		next := min(to, time.Duration(t+1)*r.Step)
		b := r.PPS[t][vm] * (next - at).Seconds()
		v.Benefit += b
		f.Benefit += b
		at = next
	}
}

// MovesPerHour is the mean number of moves per hour and VM.
func (f *Figures) MovesPerHour(r *Rates) float64 {
	return float64(f.Moves) / r.Length().Hours() / float64(max(1, len(r.VMs)))
}

// Score compares Figures with the optimum without risk and with it, in percent.
type Score struct {
	Gross, Net   float64
	MovesPerHour float64 // per VM
}

// Against scores Figures.
func (f *Figures) Against(r *Rates, free, charged *Best) Score {
	return Score{
		Gross: 100 * f.Benefit / max(free.Value, 1), Net: 100 * f.Net / max(charged.Value, 1),
		MovesPerHour: f.MovesPerHour(r),
	}
}
