package oracle

// Charge is what a move costs.
type Charge struct {
	Swap float64 // seconds of the receiver's benefit
	Risk float64 // packets per plug: kappa in the published table
}
