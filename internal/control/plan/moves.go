package plan

import (
	"slices"
	"time"

	"sluice/internal/model"
)

// The orders of Steps. Make before break: while a VF comes or goes, both paths get every inbound frame and the guest takes it
// from exactly one, because the inactive member of a net_failover or an active-backup bond drops what it receives.
var (
	plugOrder = []model.StepKind{
		model.StepCheckVirtio,
		model.StepBindVFIO,
		model.StepSetVF,
		model.StepAddSelf,      // the wire's side of the dual path
		model.StepOpenDualPath, // the switch's side; both before set-mac, which makes the NIC steer the MAC to a VF that is not in use yet
		model.StepSetMAC,       // before attach: a guest pairs VF and virtio NIC by the MAC that its driver finds
		model.StepAttach,
		model.StepWaitGuest,
		model.StepRouteToVF,
		model.StepDelSelf,
		model.StepCloseDualPath,
		model.StepAnnounce,
	}
	unplugOrder = []model.StepKind{
		model.StepCheckVirtio, // before anything else: never take the VF of a VM whose virtio path is broken
		model.StepAddSelf,     // stays: VF guests reach a virtio guest only through the PF's filter
		model.StepOpenDualPath,
		model.StepDetach,
		model.StepWaitGone,
		model.StepRouteToTap,
		model.StepClearVF,
		model.StepCloseDualPath,
		model.StepAnnounce,
	}
	// Undoing a plug is an unplug of what may be there. The guest may use the VF already, or start to at any moment, so the dual
	// path is opened first, and stays open until it is known on which path the guest listens.
	backOut = []model.StepKind{
		model.StepAddSelf,
		model.StepOpenDualPath,
		model.StepDetach,
		model.StepWaitGone,
		model.StepClearVF,
		model.StepFollowGuest,
		model.StepAnnounce,
	}
	// Before the VF is in the VM, and once it is out, the guest need not cooperate.
	backOutHost = backOut[slices.Index(backOut, model.StepClearVF):]
	// A guest that keeps its VF may not use it: the loop takes VFs away from just such guests.
	unplugUndo = backOut[slices.Index(backOut, model.StepFollowGuest):]
	// Nothing leads to a VF without a port.
	portlessUndo = []model.StepKind{model.StepRouteToTap, model.StepAnnounce}
	// What remains to be done when the VM is gone.
	cleanup = []model.StepKind{model.StepClearVF, model.StepDelSelf, model.StepCloseDualPath}
)

// Plug returns the Move that gives the VF to the VM, with rate (0: none) as its limit from the start; false if NIC or VF does not
// exist.
func Plug(snap *model.Snapshot, vm *model.VM, a *model.Assignment, rate model.Rate, why *model.Reason, to Timeouts) (model.Move, bool) {
	nic, vf := vm.FindNIC(a.NIC), snap.FindVF(a.VF)
	if nic == nil || vf == nil {
		return model.Move{}, false
	}
	return build(snap, model.MovePlug, vm, nic, vf, rate, why, plugOrder, to), true
}

// Unplug returns the Move that takes the NIC's VF away.
func Unplug(snap *model.Snapshot, vm *model.VM, nic *model.NIC, why *model.Reason, to Timeouts) model.Move {
	vf := snap.FindVF(nic.VF)
	if vf == nil { // its PF vanished, but the guest still has the device
		vf = &model.VF{ID: nic.VF}
	}
	return build(snap, model.MoveUnplug, vm, nic, vf, model.Rate{}, why, unplugOrder, to)
}

func build(snap *model.Snapshot, kind model.MoveKind, vm *model.VM, nic *model.NIC, vf *model.VF, rate model.Rate, why *model.Reason,
	order []model.StepKind, to Timeouts,
) model.Move {
	m := model.Move{Kind: kind, VM: vm.ID, VMName: vm.Name, NIC: nic.Alias, VF: vf.ID, Reason: *why}
	p := payloads(snap, vm, nic, vf)
	p.VF.MaxTxRate, p.VF.MaxPackets = rate.Bits, rate.Packets
	m.Steps = steps(p, order, to)
	return m
}

// payloads returns a Step without kind that has all payloads, for step to choose from.
func payloads(snap *model.Snapshot, vm *model.VM, nic *model.NIC, vf *model.VF) model.Step {
	onVirtio := nic.Route
	if nic.RouteBy != "" || snap.FindPort(onVirtio) != nil {
		onVirtio = nic.Tap
	}
	path := model.PathStep{MAC: nic.MAC, VLAN: nic.VLAN, Tap: nic.Tap, Network: nic.Network, VirtioRoute: onVirtio}
	uplink(snap, &path, vf.ID.PF, vf)
	routedBy(&path, nic)
	vlan := nic.VLAN
	if path.Representor {
		vlan = 0 // the representor is in it, as the tap is
	}
	set := model.VFStep{ID: vf.ID, Address: vf.Address, MAC: nic.MAC, VLAN: vlan, Port: representor(snap, vf)}
	device := model.DeviceStep{NIC: nic.Alias, MAC: nic.MAC, Failover: nic.Failover, VF: vf.ID, Address: vf.Address}
	if pf := snap.FindPF(vf.ID.PF); pf != nil && pf.Uplink.OnePort {
		device.Port = set.Port
	}
	return model.Step{
		Subject: model.Subject{VM: vm.ID, VMName: vm.Name},
		VF:      set,
		Path:    path,
		Device:  device,
	}
}

// representor returns the representor of a VF, "" if it has none.
func representor(snap *model.Snapshot, vf *model.VF) string {
	if pf := snap.FindPF(vf.ID.PF); pf != nil && pf.Uplink.Representors {
		return vf.Port
	}
	return ""
}

// uplink fills in how a PF, and a VF of it if vf is not nil, is reached.
func uplink(snap *model.Snapshot, path *model.PathStep, name string, vf *model.VF) {
	path.PF = name
	pf := snap.FindPF(name)
	if pf == nil {
		return
	}
	port := pf.Port()
	if vf != nil {
		port = pf.PortOf(vf)
	}
	if port != name {
		path.Uplink = port
	}
	path.Kind, path.Representor = pf.Uplink.Kind, pf.Uplink.Representors
	if path.Representor && path.Network != "" && path.Network != pf.Uplink.Switch {
		path.Uplink = "" // the tap is in another switch now
	}
}

// routedBy makes a Step about a NIC one of the switch that sends the NIC's frames, which may no longer be the one that connects the PF, or
// connect the VF. Then the VF has no port there.
func routedBy(path *model.PathStep, n *model.NIC) {
	if n.RouteBy != "" && path.Kind != n.RouteBy {
		path.Kind, path.Representor, path.Uplink = n.RouteBy, true, ""
	}
}

// portless reports whether the VF has lost its port of the switch, so that no dual path can lead to it.
func portless(path *model.PathStep) bool { return path.Representor && path.Uplink == "" }

// all collects the payloads of a Move's Steps in one Step.
func all(m model.Move) model.Step {
	var p model.Step
	for _, s := range m.Steps {
		p.Subject = s.Subject
		if s.VF != (model.VFStep{}) {
			p.VF = s.VF
		}
		if s.Path != (model.PathStep{}) {
			p.Path = s.Path
		}
		if s.Device != (model.DeviceStep{}) {
			p.Device = s.Device
		}
	}
	return p
}

// steps returns the Steps of an order. A PF whose VFs have representors needs no filters. A VF without a port reaches nobody already, so
// that its guest's frames may as well go to the tap before the guest listens there.
func steps(p model.Step, order []model.StepKind, to Timeouts) []model.Step {
	out := make([]model.Step, 0, len(order))
	for _, k := range order {
		if k == model.StepOpenDualPath && portless(&p.Path) {
			k = model.StepRouteToTap
		}
		if !p.Path.Representor || k != model.StepAddSelf && k != model.StepDelSelf {
			out = append(out, step(k, &p, to))
		}
	}
	return out
}

// step returns a Step of that kind with the payloads that it needs.
func step(k model.StepKind, p *model.Step, to Timeouts) model.Step {
	s := model.Step{Kind: k, Subject: p.Subject}
	switch k {
	case model.StepBindVFIO, model.StepSetVF, model.StepSetMAC, model.StepClearVF:
		s.VF = p.VF
	case model.StepAttach, model.StepWaitGuest, model.StepDetach, model.StepWaitGone:
		s.Device = p.Device
	case model.StepCheckVirtio, model.StepFollowGuest:
		s.Path, s.Device = p.Path, p.Device
	default:
		s.Path = p.Path
	}
	s.Timeout = to.of(&s)
	return s
}

func (t Timeouts) of(s *model.Step) time.Duration {
	switch s.Kind {
	case model.StepAttach:
		return t.Attach
	case model.StepWaitGuest:
		return t.Guest
	case model.StepDetach, model.StepWaitGone:
		return t.Detach
	case model.StepFollowGuest:
		if s.Device.Port != "" { // it moves the port to the tap and, after a wait, to the VF
			return 2*t.Kernel + model.SilentFor
		}
	}
	return t.Kernel
}

// Undo lists the Steps that restore a consistent state after a Move failed at Step number failed. gone means that the VM no
// longer exists.
func Undo(m model.Move, failed int, gone bool, to Timeouts) []model.Step {
	if len(m.Steps) == 0 || m.Kind == model.MoveRepair {
		return nil
	}
	base := all(m)
	at := m.Steps[failed].Kind
	switch {
	case gone:
		return steps(base, cleanup, to)
	case at == model.StepCheckVirtio:
		return nil // nothing was changed
	case m.Kind == model.MoveUnplug && portless(&base.Path) && before(m.Steps, failed, model.StepClearVF):
		return steps(base, portlessUndo, to)
	case m.Kind == model.MoveUnplug && before(m.Steps, failed, model.StepRouteToTap):
		return steps(base, unplugUndo, to)
	case m.Kind == model.MovePlug && !before(m.Steps, failed, model.StepAttach):
		return steps(base, backOut, to)
	}
	return steps(base, backOutHost, to)
}

// before reports whether the i-th Step comes before the first of kind k.
func before(steps []model.Step, i int, k model.StepKind) bool {
	return !slices.ContainsFunc(steps[:i+1], func(s model.Step) bool { return s.Kind == k })
}

// Resume rebuilds a Move that an earlier run left unfinished from the current state: an unplug is finished, a plug whose VF is in
// the VM is finished too, anything else is undone, as libvirt may still be about to attach the VF. The result is false if there
// is nothing left to act on.
func Resume(snap *model.Snapshot, m model.Move, to Timeouts) (model.Move, bool) {
	if len(m.Steps) == 0 {
		return model.Move{}, false
	}
	base := all(m)
	vm, vf := snap.FindVM(m.VM), snap.FindVF(m.VF)
	var nic *model.NIC
	if vm != nil {
		nic = vm.FindNIC(base.Device.NIC)
	}
	switch {
	case vf != nil && (vf.Owner == model.OwnerForeign || (vf.Holder != "" && vf.Holder != m.VM) || behindAnother(vm, nic, m.VF)):
		return model.Move{}, false // somebody else has it now, and its settings are theirs
	case m.Kind == model.MoveRepair:
		return model.Move{}, false // the next Target or Check shows what is still to be done
	case nic != nil && nic.VF == m.VF && m.Kind == model.MovePlug:
		rate := model.Rate{Bits: base.VF.MaxTxRate, Packets: base.VF.MaxPackets}
		again, ok := Plug(snap, vm, &model.Assignment{VM: vm.ID, NIC: nic.Alias, VF: m.VF}, rate, &m.Reason, to)
		again.Cause = restarted(&m)
		return again, ok
	case nic != nil && nic.VF == m.VF:
		again := Unplug(snap, vm, nic, &m.Reason, to)
		again.Cause = restarted(&m)
		return again, true
	}
	out := model.Move{
		Kind: model.MoveRepair, VM: m.VM, VMName: m.VMName, NIC: m.NIC, VF: m.VF, Reason: m.Reason, Cause: restarted(&m),
	}
	if nic != nil {
		base.Path.Tap, base.Path.Network = nic.Tap, nic.Network
		out.Steps = steps(base, backOut, to)
	} else {
		out.Steps = steps(base, cleanup, to)
	}
	return out, true
}

// behindAnother reports whether another NIC of the VM has the VF.
func behindAnother(vm *model.VM, nic *model.NIC, id model.VFID) bool {
	return vm != nil && slices.ContainsFunc(vm.NICs, func(n model.NIC) bool { return n.VF == id && (nic == nil || n.Alias != nic.Alias) })
}
