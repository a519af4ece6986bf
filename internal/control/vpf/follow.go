package vpf

import (
	"fmt"
	"slices"

	"sluice/internal/model"
)

// Set changes what the host lets a VF do.
func (s *State) Set(f Function, change func(*model.PortPolicy) error, policy *model.GuestPolicy) error {
	v, err := s.VF(f)
	if err != nil {
		return err
	}
	port := v.Port
	if err := change(&port); err != nil {
		return err
	}
	if err := CheckPort(&port); err != nil {
		return fmt.Errorf("VF %d: %w", f.VF, err)
	}
	if err := CheckBackend(s.Find(f.VM, f.Name), &port); err != nil {
		return fmt.Errorf("VF %d: %w", f.VF, err)
	}
	if v.Grant != nil {
		v.Grant.Port = Follow(v, port, policy)
	}
	v.Port = port
	return nil
}

// Follow is what a grant becomes when the host sets its VF to port. What the host changes counts at once: there the guest keeps what it
// asked for where that is narrower, and host policy's limit stays. The rest of the grant stays as it is.
func Follow(v *model.VirtualVF, port model.PortPolicy, g *model.GuestPolicy) model.PortPolicy {
	set := model.VirtualVF{MAC: v.MAC, Port: port}
	bound := model.GuestPolicy{Attach: true, Limit: g.Limit} // nothing that goes beyond what the host sets now
	now := model.VFGrant{Port: port}
	for _, part := range parts {
		_ = part(&v.Grant.Asked, &set, &bound, &now) // what is refused stays as the host sets it
	}
	out := changed(v.Grant.Port, v.Port, port, now.Port)
	// The host's limit is not refused for the sake of a guarantee that the guest asked for.
	limit := out.SLA.Limit
	out.SLA.Guarantee = model.Rate{Bits: atMost(out.SLA.Guarantee.Bits, limit.Bits), Packets: atMost(out.SLA.Guarantee.Packets, limit.Packets)}
	return out
}

// changed takes into a grant, of what the host changes from old to port, what is to be now.
func changed(grant, old, port, now model.PortPolicy) model.PortPolicy {
	if !slices.Equal(old.MACs, port.MACs) {
		grant.MACs = now.MACs
	}
	if old.VLAN != port.VLAN || !slices.Equal(old.Trunk, port.Trunk) {
		grant.VLAN, grant.Trunk = now.VLAN, now.Trunk
	}
	if old.NoSpoof != port.NoSpoof {
		grant.NoSpoof = now.NoSpoof
	}
	if old.CheckARP != port.CheckARP {
		grant.CheckARP = now.CheckARP
	}
	if !slices.Equal(old.Addresses, port.Addresses) {
		grant.Addresses = now.Addresses
	}
	if old.Isolated != port.Isolated {
		grant.Isolated = now.Isolated
	}
	if old.SLA != port.SLA {
		grant.SLA.Source = now.SLA.Source
	}
	if old.SLA.Guarantee != port.SLA.Guarantee {
		grant.SLA.Guarantee = now.SLA.Guarantee
	}
	if old.SLA.Limit != port.SLA.Limit {
		grant.SLA.Limit = now.SLA.Limit
	}
	if old.SLA.Receive != port.SLA.Receive {
		grant.SLA.Receive = now.SLA.Receive
	}
	if old.SLA.Weight != port.SLA.Weight {
		grant.SLA.Weight = now.SLA.Weight
	}
	return grant
}

// atMost is n, or the limit where that is lower; 0 is none.
func atMost(n, limit uint64) uint64 {
	if limit == 0 {
		return n
	}
	return min(n, limit)
}
