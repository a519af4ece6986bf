package published

// DBAVM is what the DBA-VM paper reports.
var DBAVM = Paper{
	Name: "dba-vm", System: "DBA-VM",
	About: "guarantees bits/s and packets/s by class, and drops what exceeds them before it costs anything",
	Figures: []Figure{
		{
			Name: "figure-2", Title: "three VMs on 1 Gbit/s without control", Source: "section III.C, figure 2",
			X: "VM, scenario", Y: "Mbit/s", Bars: []string{"VM1, 1", "VM2, 1", "VM3, 1", "VM1, 2", "VM2, 2", "VM3, 2"},
			Assumes: "The host carries 190,000 packets/s (figure 3). UDP as a fluid: a full link or host has its part of what each sends. " +
				"Mbit/s on the wire, here and in figure 5(a): only so do 50, 520 and 50 Mbit/s, 185,000 packets/s, agree with figure 3; as " +
				"frames of 64 and 1,500 bytes they would be 239,000.",
			Points: []Point{
				{Name: "scenario 1, VM1", Series: "native", At: 0, Paper: Is(330), Unit: "Mbit/s", Within: 5},
				{Name: "scenario 1, VM2", Series: "native", At: 1, Paper: Is(330), Unit: "Mbit/s", Within: 5},
				{Name: "scenario 1, VM3", Series: "native", At: 2, Paper: Is(330), Unit: "Mbit/s", Within: 5},
				{
					Name: "scenario 2, VM1", Series: "native", At: 3, Paper: Is(50), Unit: "Mbit/s", Within: 3, Status: Fitted,
					Why: "the paper does not say how many packets of 64 bytes a VM sends: 96,000/s is what makes these three figures, " +
						"in the unit that agrees with figure 3",
				},
				{Name: "scenario 2, VM2", Series: "native", At: 4, Paper: Is(520), Unit: "Mbit/s", Within: 15, Status: Fitted},
				{Name: "scenario 2, VM3", Series: "native", At: 5, Paper: Is(50), Unit: "Mbit/s", Within: 3, Status: Fitted},
			},
		},
		{
			Name: "figure-2-tc", Title: "the same with TC in the driver domain", Source: "section III.C, figure 2",
			Outside: "the simulator drops packets before they cost anything, or not at all; the bench has tc behind the copy",
			Measure: "scripts/measure bandwidth tap-1500 tap-mixed",
			Points: []Point{
				{Name: "SLAs kept in scenario 1", Paper: Words("yes")},
				{Name: "SLAs kept in scenario 2", Paper: Words("no")},
			},
		},
		{
			Name: "figure-3", Title: "packets/s of the host without control, scenario 2", Source: "section III.C, figure 3",
			Points: []Point{
				{Name: "all VMs", Paper: Is(190000), Unit: "packets/s", Within: 2000, Status: Fitted, Why: "it is given to the run"},
			},
		},
		{
			Name: "figure-4", Title: "what of a packet's cost is CPU and what memory", Source: "section III.C, figure 4",
			Outside: "memory transactions of the authors' host",
		},
		{
			Name: "figure-5a", Title: "the same with DBA-VM, in bits/s", Source: "section V.A, figure 5(a)",
			X: "VM, scenario", Y: "Mbit/s", Bars: []string{"VM1, 1", "VM2, 1", "VM3, 1", "VM1, 2", "VM2, 2", "VM3, 2"},
			Assumes: "As figure 2, with limits of 20,000, 60,000 and 60,000 packets/s, dropped before they cost the host anything. " +
				"A steady state: the first 5 s are left out.",
			Points: []Point{
				{Name: "scenario 1, VM1", Series: "DBA-VM", At: 0, Paper: Is(150), Unit: "Mbit/s", Within: 8},
				{
					Name: "scenario 1, VM2", Series: "DBA-VM", At: 1, Paper: Is(700), Unit: "Mbit/s", Within: 35, Reading: true,
					Why: "the paper says that in scenario 1 the SLAs are respected",
				},
				{Name: "scenario 1, VM3", Series: "DBA-VM", At: 2, Paper: Is(150), Unit: "Mbit/s", Within: 8},
				{
					Name: "scenario 2, VM1", Series: "DBA-VM", At: 3, Paper: Is(9.1), Unit: "Mbit/s", Within: 0.5, Status: Contradicted,
					Why: dbavmSmall,
				},
				{
					Name: "scenario 2, VM2", Series: "DBA-VM", At: 4, Paper: Between(600, 700), Unit: "Mbit/s", Within: 1, Reading: true,
					Why: "the paper says that in scenario 2 VM2 has slightly less; ours has all of it",
				},
				{
					Name: "scenario 2, VM3", Series: "DBA-VM", At: 5, Paper: Is(22), Unit: "Mbit/s", Within: 2, Status: Contradicted,
					Why: dbavmSmall,
				},
			},
		},
		{
			Name: "figure-5b", Title: "the same in packets/s, scenario 2", Source: "section V.A, figure 5(b)",
			X: "VM", Y: "packets/s", Bars: []string{"VM1", "VM2", "VM3"},
			Points: []Point{
				{Name: "VM1", Series: "DBA-VM", At: 0, Paper: AtMost(20000), Unit: "packets/s", Within: 200},
				{Name: "VM2", Series: "DBA-VM", At: 1, Paper: AtMost(60000), Unit: "packets/s", Within: 600},
				{Name: "VM3", Series: "DBA-VM", At: 2, Paper: AtMost(60000), Unit: "packets/s", Within: 600},
			},
		},
		{
			Name: "delay", Title: "delay and jitter of packets", Source: "section V.B",
			Outside: "the delay of real queues; the bench measures ours",
			Measure: "scripts/measure bandwidth --allocators dbavm --period 900ms --repeats 3 tap-1500 tap-mixed",
			Points: []Point{
				{Name: "VM1, native", Paper: Is(4), Unit: "ms"},
				{Name: "VM1, DBA-VM", Paper: Is(6), Unit: "ms"},
				{Name: "VM2, native", Paper: Is(3), Unit: "ms"},
				{Name: "VM2, DBA-VM", Paper: AtMost(1), Unit: "ms"},
				{Name: "VM3, native", Paper: Is(4), Unit: "ms"},
				{Name: "VM3, DBA-VM", Paper: Is(1.6), Unit: "ms"},
				{Name: "jitter, DBA-VM, high priority", Paper: Is(0.5), Unit: "ms"},
			},
		},
		{
			Name: "figure-8", Title: "CPU and, in figure 9, memory by period of readjustment", Source: "section V.C, figures 8 and 9",
			Outside: "the cost of a real host; the bench measures our CPU", Measure: "scripts/measure bandwidth --allocators dbavm tap-period",
			Points: []Point{
				{Name: "period from which CPU equals native's", Paper: Is(0.9), Unit: "s"},
				{Name: "period from which memory transactions are fewer", Paper: Is(0.3), Unit: "s"},
			},
		},
	},
}

const dbavmSmall = "20,000 and 60,000 packets/s of 64 bytes, which the SLAs allow, are 14.1 and 42.2 Mbit/s on the wire, and 10.2 and " +
	"30.7 of frames. No unit makes both of the published rates from these limits, and the paper does not say which it uses: 22 is what " +
	"60,000 IP packets of 46 bytes make, but 9.1 would be 24,700 of them"
