package plan

import (
	"fmt"
	"strings"

	"sluice/internal/model"
)

func (c *Checker) vf(pf *model.PF, vf *model.VF) {
	if !vf.MAC.IsZero() {
		if other, dup := c.macs[vf.MAC]; dup {
			c.add(FindDuplicateMAC, "VF "+vf.ID.String(), fmt.Sprintf("carries MAC %s, which VF %s carries too", vf.MAC, other))
		}
		c.macs[vf.MAC] = vf.ID
	}
	if vf.Owner == model.OwnerSluice {
		c.held[vf.ID] = true
	}
	if vf.Owner == model.OwnerForeign {
		c.foreign(pf, vf)
		return
	}
	if vf.Owner != model.OwnerFree {
		return
	}
	c.free(vf)
}

// free checks that a released VF carries nothing of its last holder.
func (c *Checker) free(vf *model.VF) {
	rates := vf.MaxTxRate != 0 || vf.MinTxRate != 0 || vf.MaxPackets != 0
	if vf.MAC.IsZero() && vf.VLAN == 0 && !rates && vf.Trust != model.Yes {
		delete(c.held, vf.ID)
		return
	}
	who := "VF " + vf.ID.String()
	reset := model.Step{
		Kind: model.StepClearVF, Subject: model.Subject{VF: vf.ID},
		VF: model.VFStep{ID: vf.ID, Address: vf.Address, MAC: vf.MAC, Port: representor(c.snap, vf)},
	}
	if vm, n := c.owner(vf.MAC); vm != nil {
		if c.isBusy(vm, n) {
			return
		}
		if vm.State != model.VMStopped {
			c.add(FindStolenMAC, who, fmt.Sprintf("is free but filters for %s, MAC %s: the NIC sends that VM's frames to a VF nobody listens on",
				vm.Name, vf.MAC), reset)
			return
		}
	}
	switch {
	case c.held[vf.ID]:
		c.add(FindLeftBehind, who, "is free but still has "+settings(vf)+" of the VM that held it", reset)
	case !vf.MAC.IsZero():
		c.add(FindStaleMAC, who, "is free but carries MAC "+vf.MAC.String(), reset)
	case vf.VLAN != 0:
		c.add(FindStaleVLAN, who, fmt.Sprintf("is free but carries VLAN %d", vf.VLAN), reset)
	case rates:
		c.add(FindStaleRate, who, "is free but has "+settings(vf), reset)
	case vf.Trust == model.Yes:
		c.add(FindStaleTrust, who, "is free but trusted", reset)
	}
}

// settings names what is configured for a VF.
func settings(vf *model.VF) string {
	var all []string
	if !vf.MAC.IsZero() {
		all = append(all, "MAC "+vf.MAC.String())
	}
	if vf.VLAN != 0 {
		all = append(all, fmt.Sprintf("VLAN %d", vf.VLAN))
	}
	if vf.MaxTxRate != 0 {
		all = append(all, "a limit of "+model.Bits(float64(vf.MaxTxRate))+"/s")
	}
	if vf.MinTxRate != 0 {
		all = append(all, "a guarantee of "+model.Bits(float64(vf.MinTxRate))+"/s")
	}
	if vf.MaxPackets != 0 {
		all = append(all, "a limit of "+model.Rate{Packets: vf.MaxPackets}.String())
	}
	if vf.Trust == model.Yes {
		all = append(all, "trust")
	}
	return strings.Join(all, ", ")
}

// foreign checks a VF that is somebody else's. There is no repair: its owner may intend the setting, or use it.
func (c *Checker) foreign(pf *model.PF, vf *model.VF) {
	vm, n := c.owner(vf.MAC)
	if vm == nil || vm.ID == vf.Holder || vm.State == model.VMStopped || c.isBusy(vm, n) {
		return
	}
	for i := range vm.NICs {
		if n := &vm.NICs[i]; n.MAC == vf.MAC && n.Network == pf.Network {
			c.add(FindForeignMAC, "VF "+vf.ID.String(), fmt.Sprintf(
				"is not Sluice's (%s) but filters for %s, MAC %s: the NIC sends it that VM's frames; if nobody needs that, "+
					"run `ip link set %s vf %d mac 00:00:00:00:00:00`",
				vf.OwnerWhy, vm.Name, vf.MAC, vf.ID.PF, vf.ID.Index))
		}
	}
}

// owner returns the VM with a NIC of that MAC, and the NIC, or nil. A linear search will do: it is rarely called.
func (c *Checker) owner(mac model.MAC) (*model.VM, *model.NIC) {
	if mac.IsZero() {
		return nil, nil
	}
	for vm, n := range c.snap.NICs() {
		if n.MAC == mac {
			return vm, n
		}
	}
	return nil, nil
}

// nic checks that the switch and the VF agree with the path on which the guest listens.
func (c *Checker) nic(vm *model.VM, n *model.NIC) {
	if other := c.twice.other(vm, n); other != "" {
		// What is right for one VM is wrong for the other: repairs would undo each other.
		c.add(FindDuplicateMAC, "VM "+vm.Name, fmt.Sprintf("has MAC %s on %s, which %s has too: frames for it reach either of them, and "+
			"neither gets a VF; give one of them another MAC and restart it", n.MAC, n.Network, other))
		return
	}
	if n.VF == model.NoVF && !n.DualPath && n.Route == "" {
		return
	}
	step := func(k model.StepKind) model.Step { return c.nicStep(vm, n, k) }
	vf := c.snap.FindVF(n.VF)
	switch idle := vf != nil && vf.InGuest != model.Yes && n.VFOwner == model.OwnerSluice; {
	case !n.DualPath || idle: // a guest may start to use its idle VF at any moment: both paths are right
	case n.VFOwner == model.OwnerForeign:
		c.add(FindOpenDualPath, "VM "+vm.Name, "gets its frames on both paths though no move is under way", step(model.StepCloseDualPath))
	default:
		c.add(FindOpenDualPath, "VM "+vm.Name, "gets its frames on both paths though no move is under way", step(model.StepFollowGuest),
			step(model.StepAnnounce))
	}
	if n.VF == model.NoVF {
		c.without(vm, n)
		return
	}
	if n.VFOwner != model.OwnerSluice || vf == nil {
		return
	}
	if vf.MAC != n.MAC {
		c.add(FindWrongMAC, "VM "+vm.Name, fmt.Sprintf("holds VF %s, which carries MAC %s instead of %s", n.VF, vf.MAC, n.MAC),
			step(model.StepSetMAC))
	}
	pf := c.snap.FindPF(n.VF.PF)
	here := pf.Uplink.Switch == n.Network && n.Network != "" // else the VLAN is unknown, too
	if set := step(model.StepSetVF); here && set.VF.VLAN != vf.VLAN {
		set.VF.MaxTxRate, set.VF.MinTxRate, set.VF.MaxPackets = vf.MaxTxRate, vf.MinTxRate, vf.MaxPackets // set-vf sets these too
		c.add(FindWrongVLAN, "VM "+vm.Name, fmt.Sprintf("holds VF %s, which carries VLAN %d, while its virtio NIC is in VLAN %d (0: none)", n.VF,
			vf.VLAN, set.VF.VLAN),
			set, step(model.StepFollowGuest), step(model.StepAnnounce))
	}
	c.idle(vm, n, vf)
	port := pf.PortOf(vf)
	if port == "" || vf.InGuest != model.Yes || n.DualPath { // without a port, only taking the VF away helps
		return
	}
	switch {
	case n.Route == "" && here:
		c.add(FindRouteUnset, "VM "+vm.Name, fmt.Sprintf("uses VF %s, but switch %s has no entry that sends %s there; the VM may have come "+
			"from another host", n.VF, n.Network, n.MAC),
			step(model.StepFollowGuest), step(model.StepAnnounce))
	case n.Route == port && vf.PortDown:
		c.add(FindPortDown, "VM "+vm.Name, fmt.Sprintf("uses VF %s, whose representor %s is set down", n.VF, port), step(model.StepFollowGuest),
			step(model.StepAnnounce))
	case n.Route == "" || n.Route == port:
	case n.Route == n.Tap:
		c.add(FindRouteAtTap, "VM "+vm.Name, fmt.Sprintf("uses VF %s, but switch %s sends %s to its virtio NIC, on which the guest does not "+
			"listen", n.VF, n.Network, n.MAC),
			step(model.StepFollowGuest), step(model.StepAnnounce))
	case pf.Uplink.Switch == n.Network:
		c.add(FindElsewhere, "VM "+vm.Name, fmt.Sprintf("uses VF %s, which is behind %s, but switch %s sends %s to %s", n.VF, port, n.Network,
			n.MAC, n.Route),
			step(model.StepFollowGuest), step(model.StepAnnounce))
	}
}

// without checks that a guest without a VF is not reached through a PF or its VFs alone.
func (c *Checker) without(vm *model.VM, n *model.NIC) {
	if pf := c.snap.FindPort(n.Route); n.RouteBy != "" || pf != nil && pf.Managed {
		c.add(FindRouteAtPF, "VM "+vm.Name, fmt.Sprintf("is on virtio, but switch %s sends %s to %s", n.Network, n.MAC, n.Route),
			c.nicStep(vm, n, model.StepRouteToTap), c.nicStep(vm, n, model.StepAnnounce))
	}
}

// idle checks that a guest that does not use its VF is not reached through the VF alone. A switch on which only Sluice makes routes may
// know the VF's port by an old name.
func (c *Checker) idle(vm *model.VM, n *model.NIC, vf *model.VF) {
	at := c.snap.FindPF(n.VF.PF).PortOf(vf) == n.Route || n.RouteBy != "" && n.Route != n.Tap
	if vf.InGuest != model.No || n.Route == "" || !at {
		return
	}
	c.add(FindRouteAtIdleVF, "VM "+vm.Name, fmt.Sprintf("has VF %s, which its guest does not use, but switch %s sends %s to %s", n.VF,
		n.Network, n.MAC, n.Route),
		c.nicStep(vm, n, model.StepFollowGuest), c.nicStep(vm, n, model.StepAnnounce))
}

// leaving checks a VM that migrates away or is being saved. QEMU has its guest release the VF before it transfers memory. Until
// the migration ends or is cancelled, the guest listens on virtio here, while the VF's filter still captures its frames. Repairs
// change only host and switch, not the VM in libvirt. At the migration target nothing is sent to the VF yet, so nothing is found
// there. The VF may also have vanished with those of its PF.
func (c *Checker) leaving(vm *model.VM, n *model.NIC) {
	if n.VF == model.NoVF && n.Route != "" {
		c.without(vm, n)
		return
	}
	if vf := c.snap.FindVF(n.VF); vf != nil && n.VFOwner == model.OwnerSluice {
		c.idle(vm, n, vf)
	}
}

// nicStep returns a Step about a NIC and the VF behind it, or the PF that its frames are wrongly sent to.
func (c *Checker) nicStep(vm *model.VM, n *model.NIC, k model.StepKind) model.Step {
	vf := c.snap.FindVF(n.VF)
	if vf == nil {
		vf = &model.VF{}
	}
	p := payloads(c.snap, vm, n, vf)
	p.Subject.NIC = n.Alias
	if p.Path.PF == "" {
		uplink(c.snap, &p.Path, c.pfOf(n), nil)
		routedBy(&p.Path, n)
	}
	return step(k, &p, c.to)
}
