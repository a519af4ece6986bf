package published

import "fmt"

// DAQS is what the DAQS paper reports. Its figures are not in numbers; the points are those that its text states.
var DAQS = Paper{
	Name: "daqs", System: "DAQS",
	About: "guarantees bandwidth on SR-IOV by throttling best-effort VMs in their guests",
	Figures: []Figure{
		{
			Name: "figure-3", Title: "a guaranteed VM of one flow against a best-effort VM of five", Source: "section IV.A, figure 3",
			X: "guarantee, system", Y: "Gbit/s of the guaranteed VM", Bars: []string{"10, ip link", "10, DAQS", "15, ip link", "15, DAQS"},
			Assumes: "TCP as a fluid: a full link of 40 Gbit/s is shared in proportion to flows; one flow reaches 18.5 Gbit/s. The authors' " +
				"iperf counts what is inside TCP (37.49 Gbit/s), we what is on the wire: so totals are in percent of what is carried without " +
				"control. That a guarantee is not kept we read as less than 95 % of it.",
			Points: []Point{
				{
					Name: "without control, five flows against one", Paper: Is(5), Unit: "to 1", Within: 0.1, Status: Fitted,
					Why: "the paper finds shares in proportion to threads, and the simulator shares so",
				},
				{Name: "guarantee 10, ip link", Series: "guaranteed VM", At: 0, Paper: AtLeast(10), Unit: "Gbit/s", Within: 0.2},
				{Name: "guarantee 10, DAQS", Series: "guaranteed VM", At: 1, Paper: AtLeast(10), Unit: "Gbit/s", Within: 0.2},
				{
					Name: "guarantee 15, ip link", Series: "guaranteed VM", At: 2, Paper: AtMost(14.25), Unit: "Gbit/s", Reading: true,
					Status: Contradicted, Why: daqsSlowFlow,
				},
				{Name: "guarantee 15, DAQS", Series: "guaranteed VM", At: 3, Paper: AtLeast(15), Unit: "Gbit/s", Within: 0.3},
				{
					Name: "limit of ip link that protects 15", Paper: Is(10), Unit: "Gbit/s", Within: 1, Status: Contradicted, Why: daqsSlowFlow,
				},
				{Name: "total with that limit", Paper: Is(65.9), Unit: "%", Within: 3, Status: Contradicted, Why: daqsSlowFlow},
				{
					Name: "guarantee 10, total with ip link", Paper: Is(86), Unit: "%", Within: 3, Status: Contradicted, Why: daqsSlowFlow,
				},
				{
					Name: "guarantee 15, total with ip link", Paper: Is(86), Unit: "%", Within: 3, Status: Contradicted, Why: daqsSlowFlow,
				},
				{
					Name: "guarantee 10, total with DAQS", Paper: Is(93), Unit: "%", Within: 3, Status: Contradicted, Why: daqsNoCost,
				},
				{
					Name: "guarantee 15, total with DAQS", Paper: Is(93), Unit: "%", Within: 3, Status: Contradicted, Why: daqsNoCost,
				},
			},
		},
		{
			Name: "figure-4", Title: "seven best-effort VMs of two flows start one a minute, beside a guarantee of 10 Gbit/s",
			Source: "section IV.B, figure 4", X: "best-effort VMs that send", Y: "Gbit/s of the guaranteed VM",
			Assumes: "As figure 3. Means over the minutes. That the guarantee is not kept we read as less than 95 % of it.",
			Points: append(daqsMinutes(),
				Point{
					Name: "all seven, ip link", Series: "ip link", At: 7, Paper: AtMost(9.5), Unit: "Gbit/s", Reading: true,
					Status: Contradicted, Why: daqsSlowFlow,
				},
				Point{
					Name: "one sends, total with ip link", Paper: AtMost(90), Unit: "%", Reading: true,
					Why: "the paper says that with ip link the link cannot be used fully while few send",
				},
				Point{
					Name: "total with DAQS", Paper: Is(93), Unit: "%", Within: 3, Status: Contradicted, Why: "as in figure 3",
				}),
		},
	},
}

const daqsNoCost = "in a fluid DAQS loses only what it has not yet given back; what it costs TCP to be policed in the guest is " +
	"not in the model"

const daqsSlowFlow = "in a fluid the one flow has all that limited ones leave, up to its 18.5 Gbit/s; on the authors' host it has less " +
	"(14.7 Gbit/s beside a limit of 10), which the paper does not explain"

// daqsMinutes are the minutes of figure 4 under DAQS.
func daqsMinutes() (points []Point) {
	for n := range 8 {
		points = append(points, Point{
			Name: fmt.Sprintf("%d send, DAQS", n), Series: "DAQS", At: float64(n), Paper: AtLeast(10), Unit: "Gbit/s", Within: 0.5,
		})
	}
	return points
}
