package model

import (
	"slices"
	"strings"
)

// Port is a port of Neutron on this host, with the SLA that its QoS policy asks for.
type Port struct {
	ID    string `json:"id"`
	Tap   string `json:"tap"` // with the MAC, it identifies the NIC
	MAC   MAC    `json:"mac"`
	SLA   SLA    `json:"sla"`             // guarantees and limits only
	Since uint64 `json:"since,omitempty"` // a greater one asked later for what it is guaranteed
}

// Compare orders Ports by tap.
func (p Port) Compare(o Port) int { return strings.Compare(p.Tap, o.Tap) }

// KeepTurns gives each of the Ports now its Since: that of before, if it asks for no greater guarantee than then, else one after all those.
// So whoever asks first is served first, however often all of them are told again.
func KeepTurns(before, now []Port) []Port {
	old, last := map[string]*Port{}, uint64(0)
	for i := range before {
		old[before[i].ID], last = &before[i], max(last, before[i].Since)
	}
	out := slices.Clone(now)
	for i := range out {
		p := &out[i]
		p.Since = last + 1
		if was := old[p.ID]; was != nil && p.SLA.Guarantee.within(was.SLA.Guarantee) {
			p.Since = was.Since
		}
	}
	return out
}

// within reports whether neither the bits nor the packets exceed those of o.
func (r Rate) within(o Rate) bool { return r.Bits <= o.Bits && r.Packets <= o.Packets }

// PortOf returns the Port of a NIC, or nil. A virtual PF is shared by its functions, which Neutron does not know.
func (r *Rules) PortOf(nic *NIC) *Port {
	if len(r.Ports) == 0 || nic.VirtualPF != "" {
		return nil
	}
	if at, ok := slices.BinarySearchFunc(r.Ports, Port{Tap: nic.Tap}, Port.Compare); ok && r.Ports[at].MAC == nic.MAC {
		return &r.Ports[at]
	}
	return nil
}

// portSLA is what the Ports set for a NIC: Neutron counts packets for each port, Sluice for all NICs of a VM together, so they add up.
func (r *Rules) portSLA(vm *VM, nic *NIC) (out SLA) {
	own := r.PortOf(nic)
	if own == nil {
		return out
	}
	out = own.SLA
	for i := range vm.NICs {
		p := r.PortOf(&vm.NICs[i])
		if p == nil || p == own {
			continue
		}
		if own.SLA.Guarantee.Packets > 0 {
			out.Guarantee.Packets += p.SLA.Guarantee.Packets
		}
		if own.SLA.Limit.Packets > 0 {
			out.Limit.Packets += p.SLA.Limit.Packets
		}
	}
	return out
}

// SourceOfPort is the Source of an SLA that comes from that Port.
func SourceOfPort(id string) string { return "Neutron port " + id }
