package plan

import (
	"fmt"
	"slices"

	"sluice/internal/model"
)

// pfOf returns the PF whose VFs the switch sends the NIC's frames to, else any managed PF of its network.
func (c *Checker) pfOf(n *model.NIC) string {
	if pf := c.snap.FindPort(n.Route); pf != nil {
		return pf.Name
	}
	for i := range c.snap.PFs {
		if pf := &c.snap.PFs[i]; pf.Managed && pf.Network == n.Network {
			return pf.Name
		}
	}
	return ""
}

// selfs compares the own filters of a legacy NIC's PF with the VMs that need one. A VM on virtio needs one, as a frame from a VF
// that matches no filter goes to the wire and not to the bridge. A VF holder must have none, as it would get every frame from the
// wire twice.
func (c *Checker) selfs(pf *model.PF) {
	if !pf.Managed || pf.Network == "" || pf.NumVFs == 0 || pf.Uplink.Representors {
		return
	}
	c.self = c.selfOf[pf.Name].unmarked(pf.SelfFDB)
	c.selfOf[pf.Name] = c.self
	room := 1 // the number of filters it takes is unknown: only trying shows
	if pf.SelfSlots > 0 {
		room = pf.SelfSlots - len(pf.SelfFDB)
	}
	inUse := pf.InUse() || c.expect[pf.Name]
	for i := range c.snap.VMs {
		vm := &c.snap.VMs[i]
		// A VM that is migrating in still runs elsewhere: with a filter, no other VM of this host reaches it.
		running := vm.State == model.VMRunning
		for j := range vm.NICs {
			n := &vm.NICs[j]
			have := c.self.mark(n.MAC)
			if running && n.Network == pf.Network && !c.isBusy(vm, n) {
				c.filter(pf, vm, n, have, inUse, room > 0)
			}
		}
	}
	c.lost(pf)
}

// lost finds filters for VMs that are gone. A filter that Sluice did not add and for which it never saw a VM is somebody else's.
func (c *Checker) lost(pf *model.PF) {
	for i, mac := range pf.SelfFDB {
		if !c.self.is(i) && (c.added[model.Filter{PF: pf.Name, MAC: mac}] || slices.Contains(c.ours[pf.Name], mac)) {
			c.self.mark(mac)
			c.add(FindStaleSelf, "PF "+pf.Name, fmt.Sprintf("filters for %s, whose VM is gone", mac),
				model.Step{
					Kind: model.StepDelSelf, Subject: model.Subject{PF: pf.Name},
					Path: model.PathStep{MAC: mac, Network: pf.Network, PF: pf.Name},
				})
		}
	}
	ours := c.ours[pf.Name][:0]
	for i, mac := range pf.SelfFDB {
		if c.self.is(i) {
			ours = append(ours, mac)
		}
	}
	c.ours[pf.Name] = ours
}

func (c *Checker) filter(pf *model.PF, vm *model.VM, n *model.NIC, have, inUse, room bool) {
	onVF := false
	if vf := c.snap.FindVF(n.VF); vf != nil {
		onVF = vf.InGuest != model.No
	}
	step := func(k model.StepKind) model.Step {
		return model.Step{
			Kind: k, Subject: model.Subject{VM: vm.ID, NIC: n.Alias, VMName: vm.Name},
			Path: model.PathStep{MAC: n.MAC, Tap: n.Tap, VLAN: n.VLAN, Network: n.Network, PF: pf.Name},
		}
	}
	switch {
	case c.twice.other(vm, n) != "":
	case onVF && have && n.VF.PF == pf.Name && n.DualPath: // removed when the dual path ends
	case onVF && have && n.VF.PF == pf.Name:
		c.add(FindStaleSelf, "PF "+pf.Name, fmt.Sprintf("filters for %s of %s, which has VF %s", n.MAC, vm.Name, n.VF),
			c.nicStep(vm, n, model.StepFollowGuest))
	case n.VirtualPF != "" && n.Carrier == model.No: // nothing can reach it yet
	case !onVF && !have && inUse && !room:
		c.add(FindNoSelf, "VM "+vm.Name, fmt.Sprintf("is on virtio and cannot be reached from VFs of %s: all %d filters that its driver "+
			"supports are in use; a VF would help, or fewer VMs on its network", pf.Name, pf.SelfSlots))
	case !onVF && !have && inUse:
		c.add(FindNoSelf, "VM "+vm.Name, fmt.Sprintf("is on virtio and cannot be reached from VFs of %s, which does not filter for %s", pf.Name,
			n.MAC), step(model.StepAddSelf))
	}
}
