package published

// FlexVF is what the FlexVF paper reports.
var FlexVF = Paper{
	Name: "flexvf", System: "FlexVF",
	About: "watches packet rates and plugs a few VFs into the VMs that gain most, or into all in turns",
	Figures: []Figure{
		{
			Name: "figure-1", Title: "latency of Xapian by way of virtualization", Source: "section 3, figure 1",
			Outside: "an application on the authors' hardware",
			Points: []Point{
				{Name: "better than virtio by", Paper: Is(22.7), Unit: "%"},
				{Name: "better than emulation by", Paper: Is(30), Unit: "%"},
			},
		},
		{
			Name: "figure-3", Title: "what five applications gain by a VF", Source: "section 3, figure 3; their packet rates in figure 2",
			Outside: "applications on the authors' hardware",
			Points: []Point{
				{Name: "Masstree gains", Paper: Is(12), Unit: "%"},
				{Name: "Sphinx gains", Paper: Is(1.6), Unit: "%"},
			},
		},
		{
			Name: "overhead", Title: "what the daemon costs", Source: "section 6.2",
			Outside: "the cost of a real process", Measure: "scripts/measure cost",
			Points: []Point{
				{Name: "CPU", Paper: AtMost(1), Unit: "%"},
				{Name: "memory for each guest", Paper: AtMost(10), Unit: "MB"},
			},
		},
		{
			Name: "table-2", Title: "time of a plug and of an unplug", Source: "section 6.2, table 2",
			Outside: "the time of a real guest and NIC; the simulator takes the published times as its default",
			Measure: "scripts/measure loss",
			Points: []Point{
				{Name: "plug", Paper: Is(640), Unit: "ms"},
				{Name: "unplug", Paper: Is(56), Unit: "ms"},
			},
		},
		{
			Name: "figure-5", Title: "what a VF saves of a packet's latency, by packet rate and size", Source: "section 6.3, figure 5",
			Outside: "the latency of a real guest and NIC; here its line is an assumption of figure 7's run, in place of which qualify " +
				"prints the measured one",
			Measure: "sluice qualify enp1s0f0 --vm VM",
			Points: []Point{
				{Name: "grows with the packet rate", Paper: Words("yes")},
				{Name: "depends on the packet's size, 16 to 1472 bytes", Paper: Words("hardly")},
			},
		},
		{
			Name: "figure-6", Title: "latency of MySQL's requests while its VM gets a VF", Source: "section 6.4, figure 6",
			Outside: "an application on the authors' hardware; the lab measures that the move holds up no request",
			Measure: "scripts/measure figure6",
			Points: []Point{
				{Name: "on virtio", Paper: Between(7, 10), Unit: "ms"},
				{Name: "on a VF", Paper: Is(2), Unit: "ms"},
			},
		},
		{
			Name: "figure-7", Title: "latency of 100 VMs with 63 VFs, four ways to allot them", Source: "section 6.4, figure 7",
			X: "packets/s of a VM", Y: "mean latency, us", Bars: []string{"20,000", "40,000", "80,000", "100,000"},
			Assumes: "The paper states the order of the ways, no numbers. What a VF saves grows linearly with the packet rate (its figure 5, " +
				"also without numbers): 10 % at rest, 0.6 % more for each 1,000 packets/s.",
			Points: []Point{
				{Name: "most latency in every group", Paper: Words("all on virtio")},
				{
					Name: "random against fair, largest difference", Paper: AtMost(15), Unit: "%", Reading: true,
					Why: "the paper says that random and fair are quite similar",
				},
				{Name: "on a VF by activity, 20,000 packets/s", Paper: Is(0), Unit: "% of time", Within: 1},
				{
					Name: "on a VF by activity, 40,000 packets/s", Paper: Between(10, 90), Unit: "% of time", Reading: true,
					Why: "the paper says that only the group of 40,000 packets/s varies",
				},
				{Name: "on a VF by activity, 80,000 packets/s", Paper: Is(100), Unit: "% of time", Within: 1},
				{Name: "on a VF by activity, 100,000 packets/s", Paper: Is(100), Unit: "% of time", Within: 1},
			},
		},
		{
			Name: "figure-8", Title: "an FTP server beside 100 VMs that send more packets, or fewer", Source: "section 6.4, figure 8",
			X: "way to allot VFs", Y: "throughput lost to busy neighbours, %", Bars: []string{"fair", "activity"},
			Assumes: "The virtio path of all VMs carries 190,000 packets/s, which the DBA-VM paper measured on another host.",
			Points: []Point{
				{
					Name: "most lost by activity", Series: "lost", At: 1, Paper: Is(93), Unit: "%", Within: 3, Status: Fitted,
					Why: "it hangs on the capacity of the virtio path, taken from another paper: see the sweep",
				},
				{
					Name: "lost in turns", Series: "lost", At: 0, Paper: AtMost(5), Unit: "%", Reading: true, Status: Contradicted,
					Why: "the paper says that it is stable in turns; but a third of its turns are without a VF, on the same full " +
						"virtio path, so on average it loses that third",
				},
				{Name: "time of the median file in turns, longer by", Paper: Is(0), Unit: "%", Within: 2},
			},
		},
	},
}
