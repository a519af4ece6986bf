package published

// VirtualPF is what the paper on virtual PFs reports.
var VirtualPF = Paper{
	Name: "virtual-pf", System: "Virtual PF",
	About: "gives VMs an emulated PF, so that SR-IOV software works inside them (Unleashing SR-IOV Offload on Virtual Machines)",
	Figures: []Figure{
		{
			Name: "operation", Title: "what has to work", Source: "section Operation",
			Outside: "real guests and containers", Measure: "go test -tags lab ./lab/vpflab/e2e -run TestVirtualPF -v",
			Points: []Point{
				{Name: "1: VFs appear when sriov_numvfs is written", Paper: Words("yes")},
				{Name: "2a: the device plugin sees them", Paper: Words("yes")},
				{Name: "2b: the CNI plugin gives them to containers", Paper: Words("with changes")},
				{Name: "2c: containers reach machines outside", Paper: Words("yes")},
			},
		},
		{
			Name: "table-2", Title: "throughput of a container on one core", Source: "section Performance: Throughput, table 2",
			Outside: "the throughput of real guests", Measure: "scripts/measure vpftables",
			Points: []Point{
				{Name: "without a virtual PF, sent", Paper: Is(1635), Unit: "Mbit/s"},
				{Name: "with one, sent", Paper: Is(1919.1), Unit: "Mbit/s"},
				{Name: "without a virtual PF, received", Paper: Is(968.1), Unit: "Mbit/s"},
				{Name: "with one, received", Paper: Is(5421.9), Unit: "Mbit/s"},
			},
		},
		{
			Name: "table-3", Title: "99th percentile of a container's latency", Source: "section Performance: Latency, table 3",
			Outside: "the latency of real guests", Measure: "scripts/measure vpftables",
			Points: []Point{
				{Name: "without a virtual PF", Paper: Is(320.2), Unit: "us"},
				{Name: "with one", Paper: Is(221.8), Unit: "us"},
			},
		},
	},
}
