package answer_test

import (
	"strings"
	"testing"

	"sluice/internal/edge/answer"
	"sluice/internal/edge/edgetest"
	"sluice/internal/model"
)

// In the API, functions name their virtual PF, which has an entry of its own.
func TestBandwidthOfVirtualPFs(t *testing.T) {
	v := edgetest.View()
	id := edgetest.ID(7)
	v.Bandwidth.NICs = append(v.Bandwidth.NICs,
		model.NICBandwidth{NICID: model.NICID{VM: id, NIC: "ua-vpf-vpf0-vf10"}, VMName: "web-2", VirtualPF: "vpf0"},
		model.NICBandwidth{NICID: model.NICID{VM: id, NIC: "ua-vpf-vpf0-vf2"}, VMName: "web-2", VirtualPF: "vpf0"})
	v.Bandwidth.VirtualPFs = []model.NICBandwidth{{
		NICID: model.NICID{VM: id, NIC: "ua-vpf-vpf0-pf"}, VMName: "web-2", VirtualPF: "vpf0",
		Short: 1,
	}}
	b := answer.Bandwidth(v)
	var names []string
	for _, n := range b.NICs {
		if n.VirtualPF == "vpf0" {
			names = append(names, n.NIC)
		}
	}
	if len(b.VirtualPFs) != 1 || b.VirtualPFs[0].NIC != "ua-vpf-vpf0-pf" || strings.Join(names, " ") != "ua-vpf-vpf0-vf2 ua-vpf-vpf0-vf10" {
		t.Errorf("virtual PFs %+v, functions %v", b.VirtualPFs, names)
	}
	e, err := answer.Explain(v, "web-2")
	if err != nil || len(e.VirtualPFs) != 1 || len(e.Shares) != 3 {
		t.Errorf("explained %+v, %v", e, err)
	}
}
