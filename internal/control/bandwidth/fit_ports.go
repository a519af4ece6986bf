package bandwidth

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/internal/model"
)

// FittedPort is a port of Neutron, and what the host makes of its guarantee. Its limits always count.
type FittedPort struct {
	model.Port
	VM     *model.VM // nil: no VM that runs here has its NIC
	NIC    string
	Kept   model.Rate // of its guarantee, as far as no more specific source says otherwise
	Why    string     // why the guarantee is refused; "": it is kept
	Remedy string
}

// FittedPorts are all ports of a host, sorted by tap.
type FittedPorts []FittedPort

const otherRule = "lower another guarantee on this host, or the minimum in the port's QoS policy"

// FitPorts decides which ports' guarantees the host keeps: in the order in which they were asked for each one that the SLAs from other
// sources, but claims, and the ports before it leave room for, whole or not at all. So a port never reduces what another NIC is promised.
// Ports without a NIC here ask for nothing.
func FitPorts(snap *model.Snapshot, rules *model.Rules) FittedPorts {
	if len(rules.Ports) == 0 {
		return nil
	}
	local := *rules
	local.Ports = nil
	f := newFitting(snap, &local)
	f.local.Ports = slices.Clone(rules.Ports) // those that were not decided about yet guarantee nothing
	out, turns, taps := make(FittedPorts, len(rules.Ports)), make([]int, len(rules.Ports)), map[string][]*nicHere{}
	for i := range f.local.Ports {
		f.local.Ports[i].SLA.Guarantee = model.Rate{}
		out[i].Port, turns[i] = rules.Ports[i], i
	}
	for _, list := range f.nics {
		for i := range list {
			taps[list[i].nic.Tap] = append(taps[list[i].nic.Tap], &list[i])
		}
	}
	slices.SortFunc(turns, func(a, b int) int { return cmp.Or(cmp.Compare(out[a].Since, out[b].Since), a-b) })
	for _, i := range turns {
		p, port := &out[i], &f.local.Ports[i]
		for _, n := range taps[p.Tap] {
			if f.local.PortOf(n.nic) != port {
				continue
			}
			p.VM, p.NIC = n.vm, n.nic.Alias
			port.SLA.Guarantee = p.SLA.Guarantee
			sla := f.local.SLA(n.vm, n.nic)
			port.SLA.Guarantee.Packets = 0
			if f.local.SLA(n.vm, n.nic).Guarantee.Packets != sla.Guarantee.Packets { // else others would add packets that nothing keeps
				port.SLA.Guarantee.Packets = p.SLA.Guarantee.Packets
			}
			if p.Why, p.Remedy = f.give(n, sla, otherRule); p.Why != "" {
				port.SLA.Guarantee = model.Rate{}
			}
			p.Kept = port.SLA.Guarantee
		}
	}
	return out
}

// Rules returns rules in which ports guarantee only what is kept.
func (l FittedPorts) Rules(rules *model.Rules) model.Rules {
	out := *rules
	out.Ports = slices.Clone(rules.Ports)
	for i := range l {
		out.Ports[i].SLA.Guarantee = l[i].Kept
	}
	return out
}

// problems lists the ports whose guarantees are refused.
func (l FittedPorts) problems() (out []model.Problem) {
	for i := range l {
		if p := &l[i]; p.Why != "" {
			text := fmt.Sprintf("the guarantee of %s for Neutron's port %s (%s of %s) is refused: %s",
				p.SLA.Guarantee, p.ID, p.NIC, p.VM.Name, p.Why)
			out = append(out, model.Problem{Subject: p.VM.Name, Text: text, Remedy: p.Remedy})
		}
	}
	return out
}
