package placement

import (
	"slices"

	"sluice/internal/model"
)

// gatherVMs finds each VM's NICs that may have a VF and the pools in which they compete, or the reason why they do not.
func (d *Decider) gatherVMs(snap *model.Snapshot, hints *Hints, t *model.Target) {
	w := &d.work
	rules := d.rulesFor(snap)
	for i := range snap.VMs {
		vm, r := &snap.VMs[i], &rules[i]
		w.nics = w.eligible(vm, r, w.nics[:0])
		if len(w.nics) == 0 {
			w.nics = append(w.nics, explained(vm, r))
		}
		if len(w.nics) > 1 {
			w.multi = append(w.multi, span{vm: i, first: len(t.NICs), n: len(w.nics)})
		}
		for _, nic := range w.nics {
			e := entry{vm: i, nic: nic, rule: r, has: nic.Ours(), out: -1}
			var hint Hint
			if len(hints.NICs) > 0 && nic != nil {
				if h, hinted := hints.NICs[model.NICID{VM: vm.ID, NIC: nic.Alias}]; hinted {
					hint, e.has = h, h.VF
				}
			}
			if len(w.nics) > 1 {
				e.out = len(t.NICs)
				t.NICs = append(t.NICs, model.Reason{})
				w.has = append(w.has, e.has != model.NoVF)
			}
			why := e.reason(t)
			why.VM, why.NIC = vm.ID, e.nicName(vm)
			d.judge(snap, vm, &e, &hint, why)
			e.needs = d.promises.need(vm.ID)
			w.place(&e, vm, t)
		}
	}
}

// eligible appends the NICs of a VM that may have a VF: those that can fall back to virtio, are on a network whose PF has VFs
// for us, and are not excluded by a rule. A NIC that has a VF is always included, whoever assigned it.
func (w *workspace) eligible(vm *model.VM, r *model.VMRule, out []*model.NIC) []*model.NIC {
	for i := range vm.NICs {
		n := &vm.NICs[i]
		p := w.pool(n.Network)
		if n.VF != model.NoVF || (canFail(n, r) && p != nil && p.serves && n.Named(r.NIC)) {
			out = append(out, n)
		}
	}
	return out
}

// explained is the NIC whose Reason explains why a VM has no eligible NIC; nil if none of its NICs can fall back to virtio or a
// rule names none of them.
func explained(vm *model.VM, r *model.VMRule) *model.NIC {
	for i := range vm.NICs {
		if n := &vm.NICs[i]; canFail(n, r) && n.Named(r.NIC) {
			return n
		}
	}
	return nil
}

// canFail reports whether the guest can fall back from a VF to the NIC. A function of a virtual PF never has a VF behind it.
func canFail(n *model.NIC, r *model.VMRule) bool {
	if n.VirtualPF != "" {
		return false
	}
	return n.Failover != model.FailoverNone || r.Failover == model.FailoverBond
}

// judge writes why a NIC is excluded from the ranking; an empty Code means that it takes part.
func (d *Decider) judge(snap *model.Snapshot, vm *model.VM, e *entry, hint *Hint, why *model.Reason) {
	holds := e.has != model.NoVF
	switch {
	case hint.Code != "":
		why.Code, why.Hold, why.Until, why.Detail = hint.Code, holds, hint.Until, hint.Detail
		return
	case e.nic != nil && e.nic.VF != model.NoVF && e.nic.VFOwner == model.OwnerForeign:
		why.Code, why.Hold = model.CodeForeign, true
		return
	case vm.State == model.VMStopped:
		why.Code = model.CodeNotRunning
		return
	}
	if text := d.veto(vm, e, holds); text != "" {
		why.Code, why.Hold, why.Detail = model.CodeVeto, holds, text
		return
	}
	switch {
	case d.rules.Drain:
		why.Code, why.By = model.CodeDrain, d.rules.DrainBy
	case e.rule.Forbid && e.rule.ByHand:
		why.Code, why.By, why.Detail = model.CodeReleased, e.rule.By, "`sluice unpin` gives it back to the policy"
	case e.rule.Forbid:
		why.Code = model.CodeForbidden
	case !e.nic.Named(e.rule.NIC):
		why.Code, why.Detail = model.CodeForbidden, "a rule allows VFs only for NIC "+e.rule.NIC+" of this VM"
	default:
		if text := d.promises.against(snap, vm, e.nic); text != "" {
			why.Code, why.Detail = model.CodeSLA, text
		}
	}
}

// veto explains why a NIC must not get a VF (or must not lose the one it has): its VM could not fall back to virtio, or its
// frames could be misdelivered. "" if it may be moved.
func (d *Decider) veto(vm *model.VM, e *entry, holds bool) string {
	nic := e.nic
	switch {
	case vm.State != model.VMRunning:
		return "the domain is " + string(vm.State) + "; it is left alone until it runs"
	case nic == nil:
		return whyNone(vm, e.rule)
	case nic.Refused != "":
		return nic.Refused
	case nic.LinkUp == model.No:
		return "its virtio path is broken: tap " + nic.Tap + " is down or not in a bridge; repair that first"
	}
	if len(d.duplicates) > 0 {
		if other := d.duplicates[model.NICID{VM: vm.ID, NIC: nic.Alias}]; other != "" {
			return "its MAC " + nic.MAC.String() + " is also that of " + other + " on network " + nic.Network +
				", so frames could go to either; give one of them another MAC and restart it"
		}
	}
	switch {
	case holds:
		return ""
	case nic.FreePort == model.No:
		return noPort(vm)
	case vm.Ready == model.No:
		return "its guest OS is not up: the agent channel is not connected yet"
	}
	return ""
}

// whyNone explains why no NIC of a VM may have a VF.
func whyNone(vm *model.VM, r *model.VMRule) string {
	switch {
	case len(vm.NICs) == 0:
		return "it has no virtio NIC"
	case !slices.ContainsFunc(vm.NICs, func(n model.NIC) bool { return n.VirtualPF == "" }):
		return "its NICs are functions of virtual PF " + vm.NICs[0].VirtualPF +
			", which never have VFs of the host behind them; this is normal"
	case r.NIC != "" && explained(vm, &model.VMRule{Failover: r.Failover}) != nil:
		return "none of its virtio NICs that can fail over matches `nic: " + r.NIC + "`; write the alias, MAC or network of one, or leave nic out"
	}
	return "none of its virtio NICs can fail over: its <interface> has no <teaming type='persistent'/>; run `sluice prepare " + vm.Name +
		"`, then stop and start it, or set failover: bond for it in sluice.yaml if the guest has an active-backup bond"
}

func noPort(vm *model.VM) string {
	if n := vm.Held(); n != nil {
		return "it has no free PCIe root port for another VF besides that of " + n.Alias + ": " + addPort(vm)
	}
	return "it has no free PCIe root port: " + addPort(vm)
}

func addPort(vm *model.VM) string {
	return "run `sluice prepare " + vm.Name + "`, which adds a pcie-root-port, then stop and start it"
}
