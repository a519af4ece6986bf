package cli

import (
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
)

// Functions are listed below the totals of their virtual PF.
func TestBandwidthShowsFunctionsUnderTheirVirtualPF(t *testing.T) {
	share := func(nic, virtual, why string) api.NICShare {
		return api.NICShare{VM: "node", ID: "u", NIC: nic, VirtualPF: virtual, Path: "virtio", PF: "pf0", Code: why, Why: why}
	}
	b := api.Bandwidth{
		Observed: time.Unix(1, 0), Allocator: "waterfill", Period: 0.2,
		NICs: []api.NICShare{
			share("ua-net0", "", "free"), share("ua-vpf-vpf0-pf", "vpf0", "free"),
			share("ua-vpf-vpf0-vf0", "vpf0", "share"), share("ua-vpf-vpf1-pf", "vpf1", "free"),
		},
		VirtualPFs: []api.NICShare{share("ua-vpf-vpf0-pf", "vpf0", "limit"), share("ua-vpf-vpf1-pf", "vpf1", "free")},
	}
	var out, text strings.Builder
	printBandwidth(&out, b, func() { g := bandwidthGrid(b); table(&out, strings.Join(g.head, " "), g.rows) })
	var names []string
	for line := range strings.Lines(out.String()) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "node" {
			names = append(names, f[1])
		}
	}
	if got := strings.Join(names, " "); got != "ua-net0 vpf0 vpf0/pf vpf0/vf0 vpf1 vpf1/pf" {
		t.Errorf("%s in\n%s", got, &out)
	}
	printShares(&text, b)
	for _, want := range []string{"node virtual PF vpf0, all functions on virtio: limit.\n", "node ua-vpf-vpf0-vf0 on virtio: share.\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &text)
		}
	}
}
