package vpf

import (
	"fmt"
	"slices"

	"sluice/internal/model"
)

// Set changes what the host lets a VF do. named are the settings that the change names, even those whose value stays the same.
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

// Follow returns what a grant becomes when the host sets its VF to port. What the host changes or names applies at once: there the
// guest keeps what it asked for if that is narrower, and the limit of the host policy stays in force. The rest of the grant does not
// change.
func Follow(v *model.VirtualVF, port model.PortPolicy, named model.PortFields, g *model.GuestPolicy) model.PortPolicy {
	set := model.VirtualVF{MAC: v.MAC, Port: port}
	bound := model.GuestPolicy{Attach: true, Limit: g.Limit} // allows nothing beyond what the host sets now
	now := model.VFGrant{Port: port}
	for _, part := range parts {
		_ = part(&v.Grant.Asked, &set, &bound, &now) // a part that is refused stays as the host sets it
	}
	out := take(v.Grant.Port, now.Port, named|Differ(&v.Port, &port))
	if v.Port.SLA != port.SLA || named&(model.PortGuarantee|model.PortLimit|model.PortReceive|model.PortWeight) != 0 {
		out.SLA.Source = now.Port.SLA.Source
	}
	// The host's limit takes precedence over a guarantee that the guest asked for.
	out.SLA.Guarantee = out.SLA.Guarantee.Capped(out.SLA.Limit)
	return out
}

// Differ returns the settings in which two policies differ.
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

// setters copy one setting each.
var setters = []struct {
	field model.PortFields
	set   func(to, from *model.PortPolicy)
}{
	{model.PortMACs, func(to, from *model.PortPolicy) { to.MACs = from.MACs }},
	{model.PortVLANs, func(to, from *model.PortPolicy) { to.VLAN, to.Trunk = from.VLAN, from.Trunk }},
	{model.PortSpoof, func(to, from *model.PortPolicy) { to.NoSpoofCheck = from.NoSpoofCheck }},
	{model.PortARP, func(to, from *model.PortPolicy) { to.CheckARP = from.CheckARP }},
	{model.PortAddresses, func(to, from *model.PortPolicy) { to.Addresses = from.Addresses }},
	{model.PortIsolated, func(to, from *model.PortPolicy) { to.Isolated = from.Isolated }},
	{model.PortGuarantee, func(to, from *model.PortPolicy) { to.SLA.Guarantee = from.SLA.Guarantee }},
	{model.PortLimit, func(to, from *model.PortPolicy) { to.SLA.Limit = from.SLA.Limit }},
	{model.PortReceive, func(to, from *model.PortPolicy) { to.SLA.Receive = from.SLA.Receive }},
	{model.PortWeight, func(to, from *model.PortPolicy) { to.SLA.Weight = from.SLA.Weight }},
}

// take returns grant with some of its settings replaced by those of now.
func take(grant, now model.PortPolicy, fields model.PortFields) model.PortPolicy {
	for _, s := range setters {
		if fields&s.field != 0 {
			s.set(&grant, &now)
		}
	}
	return grant
}
