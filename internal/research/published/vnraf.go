package published

import "fmt"

// VNRAF is what Ye et al. report.
var VNRAF = Paper{
	Name: "vnraf", System: "VNRAF",
	About: "classifies VMs by CPU and network load; the network-bound ones get VFs, in tiers of bandwidth (Ye et al.)",
	Figures: []Figure{
		{
			Name: "table-2", Title: "degrees of 15 VMs with network, CPU and mixed loads", Source: "section 5.2, table 2",
			X: "VM", Y: "net_degree", Bars: []string{
				"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
			},
			Points: vnrafTable2(),
		},
		{
			Name: "table-3", Title: "who holds 4 VFs as the loads of 8 VMs change", Source: "section 5.2, table 3",
			Points: vnrafTable3(),
		},
		{
			Name: "tiers", Title: "tiers of bandwidth for 4 VFs, by their step", Source: "section 4.5, equation 7",
			X: "step, Mbit/s", Y: "% carried of what 4 VMs send",
			Assumes: "The paper has no experiment with its tiers: it says what too small and too large a step do. Here the first tier is " +
				"1 Gbit/s, the link has 10, and four VMs send 0.7 to 3.5 Gbit/s each way; after half of the time two of them exchange their needs.",
			Points: []Point{
				{
					Name: "step of 250 Mbit/s", Series: "carried", At: 250, Paper: AtMost(95), Unit: "%", Reading: true,
					Why: "the paper says that behind too small a step a VM that needs much cannot have it",
				},
				{
					Name: "step of 1000 Mbit/s", Series: "carried", At: 1000, Paper: AtLeast(99), Unit: "%", Reading: true,
					Why: "the paper says that the step should follow the difference between the VMs",
				},
				{
					Name: "step of 3000 Mbit/s", Series: "carried", At: 3000, Paper: AtMost(95), Unit: "%", Reading: true, Status: Contradicted,
					Why: "the paper says that with too large a step the link cannot reach its most; here a step whose tiers exceed the link is made " +
						"smaller until they fit",
				},
			},
		},
		{
			Name: "figure-7a", Title: "delay of web servers' answers, 100 requests/s to each of 1 to 48 VMs", Source: "section 5.3, figure 7a",
			X: "VMs", Y: "less delay with VFs, %",
			Assumes: "Virtio is a queue that all VMs share. The paper does not state the number of VFs: 4, as in its table 3.",
			Points: []Point{
				{
					Name: "least gain from 32 VMs on", Series: "less delay", At: float64(VNRAFFigure7.ManyVMs),
					Paper: AtLeast(100 * VNRAFFigure7.ManyLess), Unit: "%", Within: 1, Status: Fitted,
					Why: "the capacity of virtio and what each VM on it takes were fitted to these two and to figure 7b",
				},
				{
					Name: "gain with 48 VMs", Series: "less delay", At: float64(VNRAFFigure7.FullVMs), Paper: Is(100 * VNRAFFigure7.FullLess),
					Unit: "%", Within: 1, Status: Fitted,
				},
				{Name: "least gain with any number", Paper: AtLeast(0), Unit: "%"},
				{Name: "without VFs it grows with each VM", Paper: Words("yes")},
			},
		},
		{
			Name: "figure-7b", Title: "delay of web servers' answers, 100 to 1,000 requests/s to each of 32 VMs", Source: "section 5.3, figure 7b",
			X: "requests/s", Y: "less delay with VFs, %",
			Assumes: "As figure 7a, with the same numbers. All VMs are equal, so noise decides who is first: 39 moves an hour and VM, whose cost " +
				"leaves 7 % of what VFs gain. The paper does not count moves.",
			Points: []Point{
				{
					Name: "least gain above 100 requests/s", Series: "less delay", At: 200, Unit: "%", Within: 1,
					Paper: Between(100*VNRAFFigure7.RateLeast, 100*VNRAFFigure7.RateMost), Status: Fitted, Why: "as figure 7a: the same capacities",
				},
				{
					Name: "most gain", Series: "less delay", At: 1000, Unit: "%", Within: 1,
					Paper: Between(100*VNRAFFigure7.RateLeast, 100*VNRAFFigure7.RateMost), Status: Fitted,
				},
			},
		},
		{
			Name: "figure-7c", Title: "throughput of 1 to 63 VMs that send all they can", Source: "section 5.4, figure 7c",
			X: "VMs", Y: "Mbit/s of all VMs",
			Assumes: "The link carries what is published with VFs; virtio less with each VM, in a straight line.",
			Points: []Point{
				{
					Name: "63 VMs without VFs", Series: "without VFs", At: float64(VNRAFFigure7.SendVMs), Paper: Is(VNRAFFigure7.Before),
					Unit: "Mbit/s", Within: 18, Status: Fitted, Why: "the capacities of link and virtio were fitted to these two",
				},
				{
					Name: "63 VMs with VFs", Series: "with VFs", At: float64(VNRAFFigure7.SendVMs), Paper: Is(VNRAFFigure7.After),
					Unit: "Mbit/s", Within: 18, Status: Fitted,
				},
				{
					Name: "least with VFs, any number", Paper: AtLeast(VNRAFFigure7.After), Unit: "Mbit/s", Within: 18, Status: Fitted,
					Why: "it is the capacity that the link is given",
				},
				{Name: "without VFs it falls with each VM", Paper: Words("yes"), Status: Fitted, Why: "virtio carries less with each VM"},
			},
		},
		{
			Name: "figure-7d", Title: "1 to 48 VMs copy 1 GB each, 7 in 10 of them compute", Source: "section 5.5, figure 7d",
			X: "VMs", Y: "s for a copy",
			Assumes: "A copy is bounded by its own work on a VF, and by what virtio carries for all.",
			Points: []Point{
				{
					Name: "48 VMs without VFs", Series: "without VFs", At: float64(VNRAFFigure7.CopyVMs), Paper: Is(VNRAFFigure7.Slow),
					Unit: "s", Within: 3, Status: Fitted, Why: "the capacities of virtio and of a VM on a VF were fitted to these two",
				},
				{
					Name: "48 VMs with VFs", Series: "with VFs", At: float64(VNRAFFigure7.CopyVMs), Paper: Is(VNRAFFigure7.Fast),
					Unit: "s", Within: 2.2, Status: Fitted,
				},
				{Name: "least gain, any number", Paper: AtLeast(0), Unit: "%"},
				{Name: "with more VMs it takes no less", Paper: Words("yes")},
			},
		},
	},
}

func vnrafTable2() (points []Point) {
	const fitted = "packet rates and CPU use were fitted, VM by VM; that the degrees are computed alike is what is shown"
	for i, vm := range VNRAFTable2 {
		points = append(points,
			Point{
				Name: fmt.Sprintf("VM%d io_degree", i+1), Paper: Is(vm.IO), Within: 0.5, Status: Fitted, Why: fitted,
			},
			Point{
				Name: fmt.Sprintf("VM%d net_degree", i+1), Series: "net_degree", At: float64(i), Paper: Is(vm.Net), Within: 0.02 * vm.Net,
				Status: Fitted, Why: fitted,
			})
	}
	return points
}

func vnrafTable3() (points []Point) {
	for i, row := range VNRAFTable3 {
		points = append(points, Point{
			Name: fmt.Sprintf("holders from %d min on", 10*i), Paper: Words(row.Holders), Status: Fitted,
			Why: "the threshold of io_degree, which the paper leaves to the environment: see the sweep",
		})
	}
	return points
}

// VNRAFTable2 is table 2 of Ye et al. (VNRAF): the degrees of VM1 to VM15: five network VMs, five that compute and five that do both.
// net_degree counts bytes.
var VNRAFTable2 = []struct{ IO, Net float64 }{
	{91.45, 27703},
	{90.95, 52832},
	{92.43, 104386},
	{94.07, 146989},
	{93.98, 162072},
	{81.43, 0},
	{59.97, 0},
	{45.54, 0},
	{23.61, 0},
	{7.82, 0},
	{86.23, 30283},
	{61.98, 69032},
	{45.77, 95619},
	{25.09, 138566},
	{11.73, 175117},
}

// VNRAFTable2Holders are the VMs that hold the VFs if there are five. The paper does not state them; they follow from its rules.
const VNRAFTable2Holders = "VM2 VM3 VM4 VM5 VM11"

// VNRAFTable3 is table 3: what VM1 to VM8 do from 0, 10, 20 and 30 minutes on, and which hold the four VFs then.
var VNRAFTable3 = []struct {
	Shares  [8]Share
	Holders string
}{
	{[8]Share{{55, 0}, {0, 40}, {30, 30}, {20, 0}, {40, 0}, {60, 0}, {80, 0}, {100, 0}}, "VM1 VM6 VM7 VM8"},
	{[8]Share{{55, 0}, {0, 40}, {30, 30}, {20, 0}, {40, 0}, {60, 0}, {0, 20}, {0, 40}}, "VM1 VM3 VM5 VM6"},
	{[8]Share{{55, 0}, {0, 40}, {30, 30}, {30, 0}, {40, 0}, {60, 0}, {0, 20}, {0, 40}}, "VM1 VM4 VM5 VM6"},
	{[8]Share{{55, 0}, {0, 40}, {30, 30}, {30, 0}, {40, 0}, {60, 0}, {20, 20}, {40, 40}}, "VM1 VM4 VM5 VM6"},
}

// Share is the share of time, in percent, that a VM runs Netperf and Lookbusy.
type Share struct{ Net, CPU int }

// VNRAFFigure7 is what the text states about figures 7a to 7d; there are no numbers for the curves themselves. Shares are relative to the
// delay or time without VFs.
var VNRAFFigure7 = struct {
	ManyVMs       int     // from this number of VMs on, with 100 requests/s each,
	ManyLess      float64 // a VM's delay is lower by at least this share,
	FullVMs       int     // and with this number
	FullLess      float64 // by this share
	RateVMs       int     // with this number of VMs and 100 to 1,000 requests/s, a VM's delay is
	RateLeast     float64 // lower by this share
	RateMost      float64 // to this share
	SendVMs       int     // this number of VMs sends
	Before, After float64 // Mbit/s without and with VFs
	CopyVMs       int     // this number of VMs copies 1 GB each
	Slow, Fast    float64 // in so many seconds without and with VFs on average
}{
	ManyVMs: 32, ManyLess: 0.26, FullVMs: 48, FullLess: 0.94,
	RateVMs: 32, RateLeast: 0.21, RateMost: 0.58,
	SendVMs: 63, Before: 9018.04, After: 9428.92,
	CopyVMs: 48, Slow: 295.95, Fast: 210.81,
}
