package vpf

import (
	"net/netip"
	"slices"

	"sluice/internal/model"
)

// World is the host as seen at one moment.
type World struct {
	VMs    []VM                    // running VMs that could be read
	Unread []model.VMID            // running VMs that could not be read
	Ports  []model.SwitchPortState // all existing switch ports
	VDPA   []model.VDPADevice      // all devices on the vDPA bus, whoever created them
}

// VM is a running domain.
type VM struct {
	model.VM        // of its NICs, only Alias, MAC, Tap, Network, VirtualPF, Function and Carrier are used
	Run      string // identifies this run of QEMU, the same for every daemon that looks; "": unknown
}

// Gone reports whether no VM with that ID runs.
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

// NIC returns the NIC of a function (VF -1: the PF itself), or nil.
func (v *VM) NIC(name string, vf int) *model.NIC {
	for i := range v.NICs {
		if n := &v.NICs[i]; n.VirtualPF == name && n.Function == vf+1 {
			return n
		}
	}
	return nil
}

// Wanted returns the desired port for a virtual PF's tap. An igb has one port for all its functions: its VFs have no NIC in the domain,
// so a VF whose link is down gets no rule instead.
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

// rule returns what a function may send and receive.
func rule(p *model.VirtualPF, vf int) model.SwitchRule {
	r := model.SwitchRule{MACs: functionMACs(p, vf)}
	if vf < 0 {
		return r // the PF itself may only use its own MAC
	}
	e := p.VFs[vf].Effective()
	r.VLAN, r.Trunk, r.NoSpoofCheck, r.CheckARP, r.Addresses = e.VLAN, e.Trunk, e.NoSpoofCheck, e.CheckARP, e.Addresses
	r.Limit, r.Receive = e.SLA.Limit, e.SLA.Receive // in force before the link comes up, whatever divides the remaining bandwidth
	return r
}

// WantsLink reports whether a function should have a carrier once its policy is in force and, if not, why.
func WantsLink(p *model.VirtualPF, vf int) (up bool, why string) {
	if vf < 0 {
		return true, ""
	}
	v := &p.VFs[vf]
	switch link := v.Effective().Link; {
	case v.Port.Link == model.LinkDown: // a guest cannot override this
		return false, "its link is set down"
	case link == model.LinkDown:
		return false, "the guest asked for it with its link down"
	case link == model.LinkAuto && p.Channel && v.Grant == nil:
		return false, "nobody in the guest has it"
	}
	return true, ""
}

// Holds reports whether a port is as wanted.
func Holds(want *model.SwitchPort, have *model.SwitchPortState) bool {
	if have == nil || have.Detached != model.No || have.Tap != want.Tap || have.Bridge != want.Bridge || have.Isolated != want.Isolated {
		return false
	}
	return slices.EqualFunc(want.Rules, have.Rules, sameRule)
}

func sameRule(a, b model.SwitchRule) bool {
	return a.VLAN == b.VLAN && a.NoSpoofCheck == b.NoSpoofCheck && a.CheckARP == b.CheckARP && a.Limit == b.Limit && a.Receive == b.Receive &&
		sameSet(a.MACs, b.MACs, compareMACs) && sameSet(a.Addresses, b.Addresses, netip.Addr.Compare) &&
		slices.Equal(a.Trunk.Joined(), b.Trunk.Joined())
}

func sameSet[T comparable](a, b []T, order func(T, T) int) bool {
	sorted := func(list []T) []T { return slices.Compact(slices.SortedFunc(slices.Values(list), order)) }
	return slices.Equal(sorted(a), sorted(b))
}
