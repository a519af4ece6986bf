// Package oracle finds the best placement with knowledge of the future, against which placements are scored: what they gained from VFs, and
// what their moves cost. It knows true rates and who held a VF when, but no policies.
//
// Benefit is packets carried by VFs. A move costs the receiver's benefit in its first Charge.Swap seconds (as long as nobody uses the VF)
// and a risk of Charge.Risk packets. A VF's first plug carries no risk: somebody has to hold it.
//
//	gross = benefit / optimum without the risk
//	net   = (benefit - risk x moves) / optimum with the risk
package oracle
