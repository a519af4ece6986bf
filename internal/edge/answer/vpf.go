package answer

import (
	"cmp"

	"sluice/api/v1"
	"sluice/internal/model"
)

// VirtualPF converts a virtual PF to its API type.
func VirtualPF(s *model.VirtualPFStatus) api.VirtualPF {
	out := api.VirtualPF{
		VM: s.VMName, ID: string(s.VM), Name: s.Name, Model: string(s.Model), Backend: string(s.Backend), Network: s.Network, MAC: s.MAC.String(),
		Channel: s.Channel, Defined: s.Defined, By: s.By, Running: s.Running, Why: s.Why, Functions: []api.VirtualFunction{},
		Problems: Problems(s.Problems),
	}
	for i := range s.Functions {
		f := &s.Functions[i]
		one := api.VirtualFunction{
			VF: f.VF, Alias: f.Alias, MAC: f.MAC.String(), Tap: f.Tap, Link: linkText(f.Carrier), Stands: f.InForce, Owner: f.Owner,
			Drops: api.PortDrops(f.Drops), Problems: Problems(f.Problems), Why: f.Why,
			Policy: portOf(&model.PortPolicy{}),
		}
		if f.VF >= 0 && f.VF < len(s.VFs) {
			p := s.VFs[f.VF].Effective()
			one.Policy = portOf(&p)
		}
		out.Functions = append(out.Functions, one)
	}
	return out
}

func linkText(t model.Tri) string {
	switch t {
	case model.Yes:
		return "up"
	case model.No:
		return "down"
	}
	return "unknown"
}

func portOf(p *model.PortPolicy) api.PortPolicy {
	out := api.PortPolicy{
		VLAN: p.VLAN, Trunk: p.Trunk.String(), SpoofCheck: !p.NoSpoofCheck, CheckARP: p.CheckARP, Link: cmp.Or(string(p.Link), api.LinkAuto),
		Isolated:  p.Isolated,
		Guarantee: p.SLA.Guarantee.String(), Limit: p.SLA.Limit.String(), Receive: p.SLA.Receive.String(), Weight: p.SLA.Weight,
	}
	for _, m := range p.MACs {
		out.MACs = append(out.MACs, m.String())
	}
	for _, a := range p.Addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	return out
}
