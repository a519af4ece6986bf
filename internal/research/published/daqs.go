package published

// DAQS is what the DAQS paper reports.
var DAQS = Paper{
	Name: "daqs", System: "DAQS",
	About: "guarantees bandwidth on SR-IOV by throttling best-effort VMs in their guests",
	Figures: []Figure{
		{
			Name: "ip-link", Title: "the limit that protects 15 Gbit/s of one flow against five", Source: "section IV.A",
			Assumes: "TCP as a fluid: a full link is shared in proportion to flows.",
			Points: []Point{
				{
					Name: "limit of the best-effort VM", Paper: Is(10), Unit: "Gbit/s", Within: 1, Status: Contradicted,
					Why: "in a fluid one flow has what five limited ones leave, so a limit of 25 Gbit/s is enough; " +
						"on the authors' host one flow does not reach that",
				},
			},
		},
	},
}
