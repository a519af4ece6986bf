package daemon

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/host/htb"
	"sluice/internal/host/tap"
	"sluice/internal/model"
)

// Limits that differ from the SLA, and trees to which no tap is directed, are leftovers; contracts that match the SLA are not.
func TestLeftLimits(t *testing.T) {
	gbit := model.Rate{Bits: 1e9}
	snap := &model.Snapshot{
		PFs: []model.PF{{Name: "pf0", Index: 3, Speed: 10e9, VFs: []model.VF{
			{ID: model.VFID{PF: "pf0"}, Owner: model.OwnerSluice, MaxTxRate: 3e8, Port: "rep0", MaxPackets: 7000},
			{ID: model.VFID{PF: "pf0", Index: 1}, Owner: model.OwnerSluice, MaxTxRate: 10e9},
		}}},
		VMs: []model.VM{
			{Name: "kept", NICs: []model.NIC{{Alias: "n0", Tap: "tap0"}}},
			{Name: "other", NICs: []model.NIC{{Alias: "n0", Tap: "tap1"}}},
			{Name: "node", NICs: []model.NIC{
				{Alias: "ua-vpf-vpf0-pf", Tap: "tap3", VirtualPF: "vpf0"},
				{Alias: "ua-vpf-vpf0-vf0", Tap: "tap4", VirtualPF: "vpf0", Function: 1},
				{Alias: "ua-vpf-vpf0-vf1", Tap: "tap5", VirtualPF: "vpf0", Function: 2},
			}},
			{Name: "wide", NICs: []model.NIC{{Alias: "n0", VF: model.VFID{PF: "pf0", Index: 1}, VFOwner: model.OwnerSluice}}},
			{Name: "vf", NICs: []model.NIC{{Alias: "n0", Tap: "tap2", VF: model.VFID{PF: "pf0"}, VFOwner: model.OwnerSluice}}},
		},
	}
	slas := func(vm *model.VM, _ *model.NIC) model.SLA {
		switch vm.Name {
		case "other":
			return model.SLA{}
		case "wide": // more than its link
			return model.SLA{Limit: model.Rate{Bits: 40e9}}
		}
		return model.SLA{Limit: gbit}
	}
	policies := []tap.Policy{
		{Tap: "tap0", Tx: tap.PathRates{Contract: gbit}, Shaper: 0},
		{Tap: "tap1", Tx: tap.PathRates{Contract: gbit}, Rx: tap.PathRates{Contract: model.Rate{Packets: 5000}}},
		{Tap: "tap2", Tx: tap.PathRates{Contract: gbit}},
		{Tap: "tap3", Tx: tap.PathRates{Contract: model.Rate{Bits: 6e8}}},
		{Tap: "tap4", Tx: tap.PathRates{Contract: model.Rate{Bits: 4e8}}},
		{Tap: "tap5", Tx: tap.PathRates{Contract: model.Rate{Bits: 4e8}, Now: gbit}},
	}
	trees := []htb.Shaper{{PF: 3, Device: 8}, {PF: 4, Device: 9}}
	leads := []tap.Policy{{Tap: "tap8", Shaper: 8, Leased: true, Detached: model.No}, {Tap: "tap9", Shaper: 9, Detached: model.No}}
	var got []string
	for _, f := range append(leftLimits(snap, slas, policies), leftTrees(snap, leads, trees)...) {
		got = append(got, fmt.Sprintf("%s: %s: %s", f.Code, f.Subject, f.Text))
	}
	want := []string{
		"left-limit: other n0: its tap tap1 is left with a limit of 1Gbit for what it sends, and its SLA asks for no limit",
		"left-limit: other n0: its tap tap1 is left with a limit of 5kpps for what it receives, and its SLA asks for no limit",
		"left-limit: node ua-vpf-vpf0-vf1: its tap tap5 is left with 1Gbit for 10s at most, and then a limit of 400Mbit for what it sends, and its SLA asks for a limit of 1Gbit",
		"left-limit: vf n0: its VF pf0/0 is left with a limit of 300Mbit, and its SLA asks for a limit of 1Gbit",
		"left-limit: vf n0: its representor rep0 is left with a limit of 7kpps, and its SLA asks for a limit of 1Gbit",
		"stale-tree: interface 4: an HTB tree for its taps is left over, and no tap is directed to it",
	}
	if text := strings.Join(got, "\n"); text != strings.Join(want, "\n") {
		t.Error(text)
	}
}

// A vDPA device is a leftover if Sluice created it and no definition needs it.
func TestLeftDevices(t *testing.T) {
	const vm = model.VMID("0a1b2c3d-0000-4000-8000-000000000001")
	needed, left := model.VDPAName(vm, "vpf0", 0), model.VDPAName(vm, "vpf0", 1)
	devices := []model.VDPADevice{{Name: needed}, {Name: left}, {Name: "vdpa0"}}
	got := leftDevices(devices, map[string]bool{needed: true})
	if len(got) != 1 || got[0].Subject != left || got[0].Code != findLeftVDPA || !strings.Contains(got[0].Remedy, "vdpa dev del "+left) {
		t.Errorf("found %+v", got)
	}
}
