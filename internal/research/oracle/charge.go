package oracle

// Charge is what a move costs.
type Charge struct {
	Swap float64 // seconds of the receiver's benefit
	Risk float64 // packets per plug: kappa of the published table
}

// PaperSwap is FlexVF's unplug (56 ms) plus plug (640 ms), in seconds.
const PaperSwap = 0.696
