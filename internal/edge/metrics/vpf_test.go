package metrics_test

import (
	"context"
	"strings"
	"testing"

	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/metrics"
	"sluice/internal/model"
)

// standing is a controller of virtual PFs with a fixed list.
type standing struct {
	metrics.VirtualPFs
	all []model.VirtualPFStatus
}

func (s standing) List(context.Context) ([]model.VirtualPFStatus, error) { return s.all, nil }

// The metrics of a virtual VF show its tap's counters, the drops by reason, its link and its owner.
func TestMetricsOfVirtualVFs(t *testing.T) {
	v := edgetest.View()
	vm := v.Snapshot.FindVM(edgetest.ID(7))
	vm.NICs = append(vm.NICs, model.NIC{
		Alias: "ua-vpf-vpf0-vf0", Tap: "vnet50", VirtualPF: "vpf0", Function: 1,
		Moved: &model.Moved{RxPackets: 1, TxPackets: 2, RxBytes: 3, TxBytes: 4},
	})
	id := model.NICID{VM: vm.ID, NIC: "ua-vpf-vpf0-vf0"}
	v.Bandwidth.NICs = append(v.Bandwidth.NICs, model.NICBandwidth{
		NICID: id, VMName: vm.Name, VirtualPF: "vpf0",
		Dropped: model.Dropped{Tx: 30, Rx: 3},
	})
	v.Bandwidth.VirtualPFs = []model.NICBandwidth{{
		NICID: model.NICID{VM: vm.ID, NIC: "ua-vpf-vpf0-pf"}, VMName: vm.Name, VirtualPF: "vpf0",
		SLA:  model.SLA{Guarantee: model.Rate{Bits: 4e9}},
		Sent: model.RateReading{Bits: 8e9, Proof: model.ProofKernel}, Short: 800, Takes: 1600,
	}}
	o := options()
	o.VirtualPFs = standing{all: []model.VirtualPFStatus{{
		VirtualPF: model.VirtualPF{VM: vm.ID, VMName: vm.Name, Name: "vpf0", Model: model.VPFVirtio, Backend: model.BackendTap, Network: "br0"},
		Running:   true,
		Functions: []model.FunctionStatus{
			{VF: -1, Alias: "ua-vpf-vpf0-pf", Carrier: model.No},
			{
				VF: 0, Alias: id.NIC, Tap: "vnet50", Carrier: model.Yes, InForce: true, Owner: "c1/net1",
				Drops: model.SwitchDrop{Spoof: 5, VLAN: 6, Rate: 33 + 3},
			},
			{VF: 1, Alias: "ua-vpf-vpf0-vf1"},
		},
	}}}
	got := string(metrics.Text(v, o))
	promtool(t, got)
	id7 := `uuid="` + string(vm.ID) + `",`
	pf := `{domain="web-2",` + id7 + `virtual_pf="vpf0"`
	vf := func(n string) string { return `{domain="web-2",` + id7 + `vf="` + n + `",virtual_pf="vpf0"} ` }
	for _, want := range []string{
		`virtual_pf_info{backend="tap",domain="web-2",model="virtio",network="br0",` + id7 + `virtual_pf="vpf0"} 1`,
		"virtual_pf_running" + pf + "} 1",
		"virtual_pf_guarantee_bytes_per_second" + pf + "} 5e+08",
		"virtual_pf_takes_bytes_per_second" + pf + "} 200",
		"virtual_pf_sent_bytes_per_second" + pf + "} 1e+09",
		"virtual_pf_short_bytes_per_second" + pf + "} 100",
		"virtual_vf_link_up" + vf("pf") + "0",
		"virtual_vf_link_up" + vf("0") + "1",
		"virtual_vf_policy_stands" + vf("0") + "1",
		"virtual_vf_granted" + vf("0") + "1",
		"virtual_vf_granted" + vf("1") + "0",
		"virtual_vf_receive_packets_total" + vf("0") + "1",
		"virtual_vf_transmit_packets_total" + vf("0") + "2",
		"virtual_vf_receive_bytes_total" + vf("0") + "3",
		"virtual_vf_transmit_bytes_total" + vf("0") + "4",
		"virtual_vf_dropped_packets_total{domain=\"web-2\",reason=\"spoof\"," + id7 + `vf="0",virtual_pf="vpf0"} 5`,
		"virtual_vf_dropped_packets_total{domain=\"web-2\",reason=\"vlan\"," + id7 + `vf="0",virtual_pf="vpf0"} 6`,
		"virtual_vf_dropped_packets_total{domain=\"web-2\",reason=\"rate\"," + id7 + `vf="0",virtual_pf="vpf0"} 36`,
	} {
		if !strings.Contains(got, "\nsluice_"+want+"\n") {
			t.Errorf("lacks %s", want)
		}
	}
	if strings.Contains(got, "virtual_vf_link_up"+vf("1")) {
		t.Error("has the link of a VF that is not there")
	}
}
