package answer

import (
	"cmp"
	"slices"

	"sluice/api/v1"
	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
)

// Capacity is what the host can still guarantee, by the rules of its own admission.
func Capacity(v *model.View) api.HostCapacity {
	x := NewIndex(v)
	claims := bandwidth.ClaimsOf(bandwidth.AskedOf(x.Snapshot, &x.Rules))
	_, fitted, _ := bandwidth.Fit(x.Snapshot, &x.Rules)
	local := claims // what is set on the host: what only a claim sets must not become a reason for a claim
	if len(fitted) > 0 {
		rules := x.Rules
		rules.Claims = nil
		local = bandwidth.ClaimsOf(bandwidth.AskedOf(x.Snapshot, &rules))
	}
	var law model.AllocatorInfo // in observe mode none
	if x.Mode == model.ModeEnforce && x.Bandwidth != nil && !x.Bandwidth.Off {
		law = bandwidth.Allocators()[x.Bandwidth.Allocator]
	}
	out := api.HostCapacity{
		Observed: x.Snapshot.Time, PFs: []api.PFCapacity{}, Guarantees: []api.Guarantee{},
		Packets: rateCapacity(x.Rules.HostPackets, claims.Packets, law.Packets),
		Drained: x.Rules.Drain || slices.ContainsFunc(x.Overrides, func(o model.Override) bool { return o.Kind == model.OverrideDrain }),
	}
	for i := range x.Snapshot.PFs {
		pf := &x.Snapshot.PFs[i]
		if pf.Network == "" {
			continue
		}
		l := api.PFCapacity{
			PF: pf.Name, Address: string(pf.Address), Driver: pf.Driver, Network: pf.Network, NUMANode: pf.NUMANode, LinkUp: pf.LinkUp,
			Managed: pf.Managed, Bits: rateCapacity(pf.Shared(), claims.Links[pf.Name], law.Bits),
		}
		if pf.Uplink.Why == "" {
			l.Uplink = pf.Uplink.Kind
		}
		l.Bits.Source = string(cmp.Or(pf.CarriesBy, model.CapacityDriver))
		out.PFs = append(out.PFs, l)
	}
	for _, c := range local.NICs {
		g := api.Guarantee{VM: c.VMName, ID: string(c.ID.VM), NIC: c.ID.NIC, Rate: rateOf(c.Rate)}
		if vm := x.Snapshot.FindVM(c.ID.VM); vm != nil {
			if nic := vm.FindNIC(c.ID.NIC); nic != nil && !nic.MAC.IsZero() {
				g.MAC = nic.MAC.String()
			}
		}
		if pf := x.Snapshot.FindPF(c.PF); pf != nil {
			g.PF = string(pf.Address)
		}
		out.Guarantees = append(out.Guarantees, g)
	}
	for i := range fitted {
		out.Claims = append(out.Claims, x.claimState(&fitted[i]))
	}
	slices.SortFunc(out.PFs, func(a, b api.PFCapacity) int { return Natural(a.PF, b.PF) })
	return out
}

func (x *Index) claimState(c *bandwidth.Fitted) api.HostClaimState {
	out := api.HostClaimState{
		HostClaim: api.HostClaim{ID: string(c.VM), PF: string(c.PF), Rate: rateOf(c.Guarantee)},
		NIC:       c.NIC, Refused: c.Why, Remedy: c.Remedy,
	}
	if !c.MAC.IsZero() {
		out.MAC = c.MAC.String()
	}
	if x.Snapshot.FindVM(c.VM) != nil {
		out.VM = c.VMName
	}
	return out
}

func rateCapacity(total, guaranteed uint64, enforced bool) api.RateCapacity {
	return api.RateCapacity{
		Total: float64(total), Guaranteed: float64(guaranteed), Free: float64(max(total, guaranteed) - guaranteed), Enforced: enforced,
	}
}
