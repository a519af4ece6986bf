package answer

import (
	"testing"

	"sluice/internal/model"
)

// A VM's SLA is shown once for a virtual PF; its VFs have their parts of it.
func TestSLAsOfAVirtualPF(t *testing.T) {
	rules := model.Rules{VMs: []model.VMRule{{Match: "node", SLA: model.SLA{Guarantee: model.Rate{Bits: 1e9}}}}}
	v := &model.View{Rules: rules, Snapshot: &model.Snapshot{VMs: []model.VM{{ID: "1", Name: "node", NICs: []model.NIC{
		{Alias: "ua-vpf-vpf0-pf", VirtualPF: "vpf0"},
		{Alias: "ua-vpf-vpf0-vf0", VirtualPF: "vpf0", Function: 1, Share: model.SLA{Guarantee: model.Rate{Bits: 2e8}}},
		{Alias: "ua-vpf-vpf0-vf1", VirtualPF: "vpf0", Function: 2},
	}}}}}
	var got []float64
	for _, s := range SLAs(v) {
		got = append(got, float64(s.Guarantee.Bits))
	}
	if len(got) != 3 || got[0] != 1e9 || got[1] != 2e8 || got[2] != 0 {
		t.Errorf("guarantees: %v", got)
	}
}

// The promised rate of a virtual PF is that of the whole, not that of its PF inside.
func TestKeptOfAVirtualPF(t *testing.T) {
	id := model.NICID{VM: "1", NIC: "ua-vpf-vpf0-pf"}
	v := &model.View{
		Rules:    model.Rules{VMs: []model.VMRule{{Match: "node", SLA: model.SLA{Guarantee: model.Rate{Bits: 1e9}}}}},
		Snapshot: &model.Snapshot{VMs: []model.VM{{ID: "1", Name: "node", NICs: []model.NIC{{Alias: id.NIC, VirtualPF: "vpf0"}}}}},
		Bandwidth: &model.Bandwidth{
			NICs:       []model.NICBandwidth{{NICID: id}},
			VirtualPFs: []model.NICBandwidth{{NICID: id, Promised: model.Rate{Bits: 8e8}}},
		},
	}
	if got := SLAs(v); len(got) != 1 || got[0].Promised.Bits != 8e8 {
		t.Errorf("SLAs %+v, want 800 Mbit/s of 1 Gbit/s kept", got)
	}
}
