package yardstick

import "time"

// Charge is what a move costs.
type Charge struct {
	Swap float64 // seconds of the receiver's benefit
	Risk float64 // packets per plug: kappa of the published table
}

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

// Measure computes the Figures of a Log. vfs is how many VFs there were.
func Measure(r *Rates, log Log, vfs int, c Charge) Figures { panic("not written yet") }

// MovesPerHour is the mean number of moves per hour and VM.
func (f *Figures) MovesPerHour(r *Rates) float64 {
	return float64(f.Moves) / r.Length().Hours() / float64(max(1, len(r.VMs)))
}

// Best is the optimum with knowledge of the future.
type Best struct {
	Value float64 // benefit minus charges, packets: some placement reaches it
	Upper float64 // no placement reaches more; equal to Value when the search was exact
	Log   Log     // who holds a VF when; plugs count from when they are asked for
	Moves int
}

// Optimum finds the best placement: a min-cost flow of vfs units on the time-expanded
// graph (published algorithms' yardstick). Long Rates are cut into windows, each
// optimal by itself; then Upper says how far off that may be.
func Optimum(r *Rates, vfs int, c Charge) Best { panic("not written yet") }

// Score sets Figures against the optimum without risk and with it, in percent.
type Score struct {
	Gross, Net   float64
	MovesPerHour float64 // per VM
}
