// Package oracle says how good a placement was: what it gained from the VFs, what
// its moves cost, and what the best placement with knowledge of the future would have
// gained. It knows true rates and who held a VF when, and nothing of policies.
//
// Benefit is packets carried by VFs. A move costs the receiver's benefit in its first
// Charge.Swap seconds (that is how long nobody uses the VF), and a risk of Charge.Risk packets.
// A VF's first plug is free of the risk: somebody has to hold it.
//
//	gross = benefit / optimum without the risk
//	net   = (benefit - risk x moves) / optimum with the risk
package oracle
