package vpf

import (
	"fmt"
	"slices"

	"sluice/internal/model"
)

// Set changes what the host lets a VF do; named is what the change names, also where it leaves that as it is.
func (s *State) Set(f Function, named model.PortFields, change func(*model.PortPolicy) error, policy *model.GuestPolicy) error {
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
		v.Grant.Port = Follow(v, port, named, policy)
	}
	v.Port = port
	return nil
}

// Follow is what a grant becomes when the host sets its VF to port. What the host changes counts at once, and what it names even if
// that was so before: there the guest keeps what it asked for where that is narrower, and host policy's limit stays. The rest of the
// grant stays as it is.
func Follow(v *model.VirtualVF, port model.PortPolicy, named model.PortFields, g *model.GuestPolicy) model.PortPolicy {
	set := model.VirtualVF{MAC: v.MAC, Port: port}
	bound := model.GuestPolicy{Attach: true, Limit: g.Limit} // nothing that goes beyond what the host sets now
	asked := v.Grant.Asked
	if nothing(&asked) {
		asked = held(&v.Grant.Port, &v.Port, g)
	}
	now := model.VFGrant{Port: port}
	for _, part := range parts {
		_ = part(&asked, &set, &bound, &now) // what is refused stays as the host sets it
	}
	out := take(v.Grant.Port, now.Port, named|Differ(&v.Port, &port))
	if v.Port.SLA != port.SLA || named&(model.PortGuarantee|model.PortLimit|model.PortReceive|model.PortWeight) != 0 {
		out.SLA.Source = now.Port.SLA.Source
	}
	// The host's limit is not refused for the sake of a guarantee that the guest asked for.
	limit := out.SLA.Limit
	out.SLA.Guarantee = model.Rate{Bits: atMost(out.SLA.Guarantee.Bits, limit.Bits), Packets: atMost(out.SLA.Guarantee.Packets, limit.Packets)}
	return out
}

// nothing says whether no request is recorded.
func nothing(r *model.VFRequest) bool {
	return r.MAC.IsZero() && r.VLAN == 0 && len(r.Trunk) == 0 && r.SpoofChk == nil && r.CheckARP == nil && r.Isolated == nil &&
		len(r.Addresses) == 0 &&
		!r.Down && r.Guarantee.IsZero() && r.Limit.IsZero() && r.Receive.IsZero() && r.Weight == 0
}

// held takes what a grant has and the host has not for asked for: earlier versions did not keep what was.
func held(grant, host *model.PortPolicy, g *model.GuestPolicy) (r model.VFRequest) {
	differ := Differ(grant, host)
	if differ&model.PortVLANs != 0 {
		r.VLAN, r.Trunk = grant.VLAN, grant.Trunk
	}
	if differ&model.PortSpoof != 0 {
		check := !grant.NoSpoofCheck
		r.SpoofChk = &check
	}
	if differ&model.PortARP != 0 {
		r.CheckARP = &grant.CheckARP
	}
	if differ&model.PortIsolated != 0 {
		r.Isolated = &grant.Isolated
	}
	if differ&model.PortAddresses != 0 {
		r.Addresses = grant.Addresses
	}
	if differ&model.PortGuarantee != 0 {
		r.Guarantee = grant.SLA.Guarantee
	}
	if differ&model.PortLimit != 0 && grant.SLA.Limit != tighter(g.Limit, host.SLA.Limit) { // which is policy's
		r.Limit = grant.SLA.Limit
	}
	if differ&model.PortReceive != 0 {
		r.Receive = grant.SLA.Receive
	}
	if differ&model.PortWeight != 0 {
		r.Weight = grant.SLA.Weight
	}
	return r
}

// Differ says in what two policies differ.
func Differ(a, b *model.PortPolicy) (f model.PortFields) {
	for _, c := range []struct {
		differ bool
		field  model.PortFields
	}{
		{!slices.Equal(a.MACs, b.MACs), model.PortMACs},
		{a.VLAN != b.VLAN || !slices.Equal(a.Trunk, b.Trunk), model.PortVLANs},
		{a.NoSpoofCheck != b.NoSpoofCheck, model.PortSpoof},
		{a.CheckARP != b.CheckARP, model.PortARP},
		{!slices.Equal(a.Addresses, b.Addresses), model.PortAddresses},
		{a.Isolated != b.Isolated, model.PortIsolated},
		{a.SLA.Guarantee != b.SLA.Guarantee, model.PortGuarantee},
		{a.SLA.Limit != b.SLA.Limit, model.PortLimit},
		{a.SLA.Receive != b.SLA.Receive, model.PortReceive},
		{a.SLA.Weight != b.SLA.Weight, model.PortWeight},
	} {
		if c.differ {
			f |= c.field
		}
	}
	return f
}

// take takes some settings of now into a grant.
func take(grant, now model.PortPolicy, fields model.PortFields) model.PortPolicy {
	if fields&model.PortMACs != 0 {
		grant.MACs = now.MACs
	}
	if fields&model.PortVLANs != 0 {
		grant.VLAN, grant.Trunk = now.VLAN, now.Trunk
	}
	if fields&model.PortSpoof != 0 {
		grant.NoSpoofCheck = now.NoSpoofCheck
	}
	if fields&model.PortARP != 0 {
		grant.CheckARP = now.CheckARP
	}
	if fields&model.PortAddresses != 0 {
		grant.Addresses = now.Addresses
	}
	if fields&model.PortIsolated != 0 {
		grant.Isolated = now.Isolated
	}
	if fields&model.PortGuarantee != 0 {
		grant.SLA.Guarantee = now.SLA.Guarantee
	}
	if fields&model.PortLimit != 0 {
		grant.SLA.Limit = now.SLA.Limit
	}
	if fields&model.PortReceive != 0 {
		grant.SLA.Receive = now.SLA.Receive
	}
	if fields&model.PortWeight != 0 {
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
