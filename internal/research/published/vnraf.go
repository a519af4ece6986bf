// Package published has figures from the papers that this software implements, stated once for the tests that compare with them.
package published

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
