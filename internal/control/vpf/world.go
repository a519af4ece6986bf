package vpf

import (
	"net/netip"
	"slices"

	"sluice/internal/model"
)

// World is the host as seen at one moment.
type World struct {
	VMs    []VM                    // all that run and could be read
	Unread []model.VMID            // those that run and could not
	Ports  []model.SwitchPortState // all that stand
	VDPA   []model.VDPADevice      // all on the bus, whoever made them
}

// VM is a running domain.
type VM struct {
	model.VM        // of its NICs Alias, MAC, Tap, Network, VirtualPF, Function and Carrier count
	Run      string // tells this run of its QEMU from others, whichever daemon looks; "": not known
}

// Gone says whether no VM with that ID runs.
func (w *World) Gone(id model.VMID) bool {
	return w.FindVM(id) == nil && !slices.Contains(w.Unread, id)
}

// FindVM returns the VM with that ID, or nil.
func (w *World) FindVM(id model.VMID) *VM {
	for i := range w.VMs {
		if w.VMs[i].ID == id {
			return &w.VMs[i]
		}
	}
	return nil
}

// NIC is that of a function (VF -1: the PF itself), or nil.
func (v *VM) NIC(name string, vf int) *model.NIC {
	for i := range v.NICs {
		if n := &v.NICs[i]; n.VirtualPF == name && n.Function == vf+1 {
			return n
		}
	}
	return nil
}

// Wanted is the port that a virtual PF's tap should be. An igb has one for all of its functions: its VFs have no NIC in
// the domain, so one whose link is down has no rule.
func Wanted(p *model.VirtualPF, vf int, tap string) model.SwitchPort {
	port := model.SwitchPort{Tap: tap, Bridge: p.Network, Rules: []model.SwitchRule{rule(p, vf)}}
	if vf >= 0 {
		port.Isolated = p.VFs[vf].Effective().Isolated
	}
	if p.Model != model.VPFIGB {
		return port
	}
	for i := range p.VFs {
		if up, _ := WantsLink(p, i); up {
			port.Rules = append(port.Rules, rule(p, i))
			port.Isolated = port.Isolated || p.VFs[i].Effective().Isolated
		}
	}
	return port
}

// rule is what a function may send and receive.
func rule(p *model.VirtualPF, vf int) model.SwitchRule {
	r := model.SwitchRule{MACs: functionMACs(p, vf)}
	if vf < 0 {
		return r // the PF itself is held to its own MAC
	}
	e := p.VFs[vf].Effective()
	r.VLAN, r.Trunk, r.Spoof, r.CheckARP, r.Addresses = e.VLAN, e.Trunk, e.NoSpoof, e.CheckARP, e.Addresses
	r.Limit, r.Receive = e.SLA.Limit, e.SLA.Receive // so that they stand before the link is up, whatever divides the rest
	return r
}

// WantsLink says whether a function should have a carrier once its policy stands, and why not.
func WantsLink(p *model.VirtualPF, vf int) (up bool, why string) {
	if vf < 0 {
		return true, ""
	}
	v := &p.VFs[vf]
	switch link := v.Effective().Link; {
	case v.Port.Link == model.LinkDown: // a guest cannot change that
		return false, "its link is set down"
	case link == model.LinkDown:
		return false, "the guest asked for it with its link down"
	case link == model.LinkAuto && p.Channel && v.Grant == nil:
		return false, "nobody in the guest has it"
	}
	return true, ""
}

// Holds says whether a port stands as it should.
func Holds(want *model.SwitchPort, have *model.SwitchPortState) bool {
	if have == nil || have.Detached != model.No || have.Tap != want.Tap || have.Bridge != want.Bridge || have.Isolated != want.Isolated {
		return false
	}
	return slices.EqualFunc(want.Rules, have.Rules, sameRule)
}

func sameRule(a, b model.SwitchRule) bool {
	return a.VLAN == b.VLAN && a.Spoof == b.Spoof && a.CheckARP == b.CheckARP && a.Limit == b.Limit && a.Receive == b.Receive &&
		sameSet(a.MACs, b.MACs, compareMACs) && sameSet(a.Addresses, b.Addresses, netip.Addr.Compare) && slices.Equal(a.Trunk.Joined(), b.Trunk.Joined())
}

func sameSet[T comparable](a, b []T, order func(T, T) int) bool {
	sorted := func(list []T) []T { return slices.Compact(slices.SortedFunc(slices.Values(list), order)) }
	return slices.Equal(sorted(a), sorted(b))
}
