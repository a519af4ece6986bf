package placement

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/internal/model"
)

// Placement and bandwidth control interact only through these data: an SLA can require a VF, and it can forbid one where
// nothing could enforce its limits.

// promises is the part of the SLAs that placement needs. It is nil if there are none.
type promises struct {
	of     map[model.NICID]model.SLA // of the NICs that have one
	needs  map[model.VMID]string     // VMs whose packets the virtio path cannot carry, and why
	linked map[string][]model.NICID  // by network: the NICs with guarantees there
}

// promisesOf resolves the SLAs of a Snapshot's VMs.
func promisesOf(rules *model.Rules, snap *model.Snapshot) *promises {
	p := &promises{of: map[model.NICID]model.SLA{}, needs: map[model.VMID]string{}, linked: map[string][]model.NICID{}}
	// Claims, and guarantees of ports, are kept only as far as all packets together fit, so none of them is the reason for a VF.
	unclaimed := *rules
	unclaimed.Claims, unclaimed.Ports = nil, nil
	var packets []packetSLA
	for i := range snap.VMs {
		vm := &snap.VMs[i]
		most := uint64(0)
		for k := range vm.NICs {
			nic := &vm.NICs[k]
			if nic.Function > 0 { // the SLA is that of its virtual PF
				continue
			}
			sla := rules.SLA(vm, nic)
			if sla.IsZero() {
				continue
			}
			id := model.NICID{VM: vm.ID, NIC: nic.Alias}
			p.of[id] = sla
			local := unclaimed.SLA(vm, nic)
			most = max(most, local.Guarantee.Packets)
			if sla.Guarantee.Bits > 0 && vm.State != model.VMStopped {
				p.linked[nic.Network] = append(p.linked[nic.Network], id)
			}
		}
		if most > 0 && vm.State != model.VMStopped {
			packets = append(packets, packetSLA{vm.ID, most})
		}
	}
	if len(p.of) == 0 {
		return nil
	}
	p.overflow(packets, rules.HostPackets)
	return p
}

// packetSLA is what a VM is guaranteed in packets/s.
type packetSLA struct {
	vm      model.VMID
	packets uint64
}

// overflow finds the VMs whose packets exceed the host's virtio capacity. The smallest guarantees stay on virtio, because a VF
// relieves it most where the guarantee is largest.
func (p *promises) overflow(list []packetSLA, host uint64) {
	if host == 0 {
		return
	}
	slices.SortFunc(list, func(a, b packetSLA) int {
		return cmp.Or(cmp.Compare(a.packets, b.packets), cmp.Compare(a.vm, b.vm))
	})
	sum := uint64(0)
	for _, one := range list {
		sum += one.packets
		if sum <= host {
			continue
		}
		why := fmt.Sprintf("together with smaller guarantees, its %s packets/s are more than the %s packets/s that virtio carries here",
			model.SI(float64(one.packets)), model.SI(float64(host)))
		if one.packets > host {
			why = fmt.Sprintf("virtio carries %s packets/s here, but it is guaranteed %s", model.SI(float64(host)), model.SI(float64(one.packets)))
		}
		p.needs[one.vm] = why
	}
}

// against explains why a NIC must not have a VF under the current SLAs: its own limits, or the guarantees of others on the
// link, could not be enforced there. "" if it may have one.
func (p *promises) against(snap *model.Snapshot, vm *model.VM, nic *model.NIC) string {
	if p == nil {
		return ""
	}
	id := model.NICID{VM: vm.ID, NIC: nic.Alias}
	sla := p.of[id]
	switch {
	case !sla.Receive.IsZero():
		return "its SLA limits what it receives, which nothing can limit on a VF; remove `receive` from the SLA to let it have one"
	case sla.Limit.Packets > 0 && vm.InGuest != model.Yes && snap.PolicesVFs(nic.Network) != model.Yes:
		return "its SLA limits packets/s, which on a VF only its guest could; " + tryPolice(snap, nic.Network) + inGuest
	}
	pf := unlimited(snap, nic.Network)
	if pf == nil || vm.InGuest == model.Yes {
		return ""
	}
	cannot := fmt.Sprintf("the driver of %s (%s) cannot limit its VFs", pf.Name, pf.Driver)
	if sla.Limit.Bits > 0 {
		return cannot + ", and its SLA has a limit; " + inGuest
	}
	for _, other := range p.linked[nic.Network] {
		if other != id {
			return cannot + ", and others are guaranteed bandwidth on that link; " + inGuest
		}
	}
	return ""
}

// tryPolice says how to find out whether packets/s can be limited at representors, "" if they cannot.
func tryPolice(snap *model.Snapshot, network string) string {
	if snap.PolicesVFs(network) == model.No {
		return ""
	}
	return "let `sluice qualify PF --save` try whether it holds at the VF's representor, or "
}

const inGuest = "set bandwidth.in_guest: true in sluice.yaml and let its guest agent run programs (guest-exec)"

// unlimited returns a PF of the network whose VFs the host cannot limit, or nil. A PF for which only an attempt can tell is not
// included: a plug sets the limit first, and fails if that is impossible.
func unlimited(snap *model.Snapshot, network string) *model.PF {
	for i := range snap.PFs {
		if pf := &snap.PFs[i]; pf.Managed && pf.Network == network && pf.Caps.MaxTxRate == model.No {
			return pf
		}
	}
	return nil
}

// need explains why a VM's SLA requires a VF; "" if it does not.
func (p *promises) need(vm model.VMID) string {
	if p == nil {
		return ""
	}
	return p.needs[vm]
}
