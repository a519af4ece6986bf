package published

// DBAVM is what the DBA-VM paper reports.
var DBAVM = Paper{
	Name: "dba-vm", System: "DBA-VM",
	About: "guarantees bits/s and packets/s by class, and drops what exceeds them before it costs anything",
	Figures: []Figure{
		{
			Name: "figure-2", Title: "three VMs on 1 Gbit/s without control", Source: "section III.C, figure 2",
			X: "VM, scenario", Y: "Mbit/s", Bars: []string{"VM1, 1", "VM2, 1", "VM3, 1", "VM1, 2", "VM2, 2", "VM3, 2"},
			Assumes: "The host carries 190,000 packets/s (figure 3). UDP as a fluid: a full link or host has its part of what each sends.",
			Points: []Point{
				{Name: "scenario 1, VM1", Series: "native", At: 0, Paper: Is(330), Unit: "Mbit/s", Within: 5},
				{Name: "scenario 1, VM2", Series: "native", At: 1, Paper: Is(330), Unit: "Mbit/s", Within: 5},
				{Name: "scenario 1, VM3", Series: "native", At: 2, Paper: Is(330), Unit: "Mbit/s", Within: 5},
				{
					Name: "scenario 2, VM1", Series: "native", At: 3, Paper: Is(50), Unit: "Mbit/s", Within: 3, Status: Fitted,
					Why: "the paper does not say how many packets of 64 bytes a VM sends: 96,000/s is what makes these three figures",
				},
				{Name: "scenario 2, VM2", Series: "native", At: 4, Paper: Is(520), Unit: "Mbit/s", Within: 15, Status: Fitted},
				{Name: "scenario 2, VM3", Series: "native", At: 5, Paper: Is(50), Unit: "Mbit/s", Within: 3, Status: Fitted},
			},
		},
		{
			Name: "figure-4", Title: "what of a packet's cost is CPU and what memory", Source: "section III.C, figure 4",
			Outside: "memory transactions of the authors' host",
		},
	},
}
