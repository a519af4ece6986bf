package answer

import (
	"slices"

	"sluice/api/v1"
	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
)

// SLAs lists the SLA in force for each NIC, sorted by VM and NIC.
func SLAs(v *model.View) []api.NICSLA {
	out := []api.NICSLA{}
	x := NewIndex(v)
	fitted := *x.View // what is refused of ports and claims sets nothing
	_, claims, kept := bandwidth.Fit(x.Snapshot, &x.Rules)
	fitted.Rules = claims.Rules(&kept)
	x.View = &fitted
	promised := map[model.NICID]model.Rate{}
	b := BandwidthOf(v)
	for _, n := range slices.Concat(b.NICs, b.VirtualPFs) { // the PF's own NIC represents its whole virtual PF
		promised[n.NICID] = n.Promised
	}
	for i := range x.Snapshot.VMs {
		vm := &x.Snapshot.VMs[i]
		for k := range vm.NICs {
			out = append(out, x.nicSLA(vm, &vm.NICs[k], promised))
		}
	}
	slices.SortStableFunc(out, func(a, b api.NICSLA) int { return Natural(a.VM, b.VM) })
	return out
}

func (x *Index) nicSLA(vm *model.VM, nic *model.NIC, promised map[model.NICID]model.Rate) api.NICSLA {
	s := x.Rules.SLA(vm, nic)
	if nic.Function > 0 { // Rules.SLA is that of the whole virtual PF
		s = nic.Share
	}
	kept, known := promised[model.NICID{VM: vm.ID, NIC: nic.Alias}]
	if !known {
		kept = s.Guarantee
	}
	out := api.NICSLA{
		VM: vm.Name, ID: string(vm.ID), NIC: nic.Alias, Network: nic.Network,
		Guarantee: rateOf(s.Guarantee), Promised: rateOf(kept), Limit: rateOf(s.Limit), Receive: rateOf(s.Receive),
		Weight: s.Share(), Class: s.Class, Priority: s.Priority, Source: s.Source, Overrides: []*api.Override{},
	}
	for i := range x.Overrides {
		if o := &x.Overrides[i]; o.Kind == model.OverrideSLA && model.Matches(o.Rule().Match, vm.ID, vm.Name) && nic.Named(o.NIC) {
			request := overrideOf(o)
			out.Overrides = append(out.Overrides, &request)
		}
	}
	return out
}

// slaText converts an SLA to the form of a request; nil if it is empty.
func slaText(s *model.SLA) *api.SLA {
	if *s == (model.SLA{}) {
		return nil
	}
	return &api.SLA{Guarantee: s.Guarantee.String(), Limit: s.Limit.String(), Receive: s.Receive.String(), Weight: s.Weight, Class: s.Class}
}
