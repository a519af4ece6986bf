// Package doctor lists what a Snapshot shows that prevents Sluice from moving VMs, with a remedy for each.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/model"
)

func problem(subject, text, remedy string) model.Problem {
	return model.Problem{Subject: subject, Text: text, Remedy: remedy}
}

// info is a problem that needs no remedy unless somebody wants one.
func info(subject, text, remedy string) model.Problem {
	return model.Problem{Subject: subject, Text: text, Remedy: remedy, Info: true}
}

func hasVirtualPF(vm model.VM) bool {
	return slices.ContainsFunc(vm.NICs, func(n model.NIC) bool { return n.VirtualPF != "" })
}

// Examine lists the Snapshot's own problems, why each VM that is not moved cannot be, and what each PF lacks, with a remedy for
// each.
func Examine(s *model.Snapshot) []model.Problem {
	out := slices.Clone(s.Problems)
	nets := Networks(s)
	if len(nets) == 0 {
		out = append(out, model.Problem{
			Text:   "Sluice manages no PF",
			Remedy: "list one under pfs: in sluice.yaml",
			Info:   slices.ContainsFunc(s.VMs, hasVirtualPF), // Sluice may serve virtual PFs only
		})
	}
	for i := range s.PFs {
		out = append(out, pfTroubles(&s.PFs[i])...)
		out = append(out, pfAdvice(&s.PFs[i])...)
	}
	for i := range s.VMs {
		out = append(out, vmAdvice(s, &s.VMs[i], nets)...)
	}
	return unique(append(out, sameMACs(s)...))
}

// sameMACs finds NICs with one MAC on one network. Frames for it go to whichever sent last.
func sameMACs(s *model.Snapshot) []model.Problem {
	type address struct {
		network string
		mac     model.MAC
	}
	type place struct {
		vm  *model.VM
		nic *model.NIC
	}
	all := map[address][]place{}
	for vm, n := range s.NICs() {
		if vm.State != model.VMStopped && n.Network != "" && !n.MAC.IsZero() {
			at := address{n.Network, n.MAC}
			all[at] = append(all[at], place{vm, n})
		}
	}
	var out []model.Problem
	for _, same := range all {
		for i, p := range same {
			if len(same) < 2 {
				continue
			}
			o := same[(i+1)%len(same)]
			text := fmt.Sprintf("its NIC %s has MAC %s, which NIC %s of %s has too: neither can have a VF", p.nic.Alias, p.nic.MAC,
				o.nic.Alias, o.vm.Name)
			out = append(out, problem(p.vm.Name, text, "give one of them another MAC: virsh edit "+p.vm.Name))
		}
	}
	slices.SortFunc(out, func(a, b model.Problem) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Text, b.Text))
	})
	return out
}

// pfAdvice lists what a PF or its driver lacks.
func pfAdvice(pf *model.PF) (out []model.Problem) {
	if !pf.Managed {
		if pf.NumVFs == 0 {
			return nil
		}
		return []model.Problem{info(pf.Name, "its VFs are not in Sluice's pool", "list it under pfs: in sluice.yaml if they should be")}
	}
	if what, remedy, _ := strings.Cut(pf.Uplink.Note, "; "); what != "" {
		out = append(out, info(pf.Name, what, remedy))
	}
	if pf.Caps.VFCounters != model.Yes {
		out = append(out, info(pf.Name, "its driver "+pf.Driver+" does not count per VF", "run qemu-guest-agent in each guest that may have "+
			"one of its VFs, else its load soon becomes unknown; if all run it, there is nothing to do"))
	}
	if n := notInPool(pf); n > 0 {
		out = append(out, info(pf.Name, fmt.Sprintf("%d of its VFs are not in Sluice's pool", n),
			"list them under vfs: in sluice.yaml if Sluice should assign them"))
	}
	if nodes := rateNodes(pf); nodes != "" {
		out = append(out, problem(pf.Name, "VFs in rate nodes that Sluice did not make: "+nodes+". A node can hold them below their limits, and "+
			"the NIC guarantees them nothing", "leave them there if that is meant; else see devlink port function rate show, and for each: "+
			"devlink port function rate set pci/"+string(pf.Address)+"/PORT noparent"))
	}
	if why := foreign(pf); why != "" {
		out = append(out, problem(pf.Name, "VFs that Sluice leaves alone: "+why,
			"give them back to the pool: detach them, take their interface down, or list them under pfs: in sluice.yaml"))
	}
	return out
}

// rateNodes lists the VFs of Sluice's pool that are in somebody's rate node.
func rateNodes(pf *model.PF) string {
	var out []string
	for i := range pf.VFs {
		if v := &pf.VFs[i]; v.RateNode != "" && v.Owner != model.OwnerForeign {
			out = append(out, fmt.Sprintf("%s (%s)", v.ID, v.RateNode))
		}
	}
	return strings.Join(out, ", ")
}

// notInPool counts the VFs that have no holder but are outside the pool.
func notInPool(pf *model.PF) (n int) {
	for i := range pf.VFs {
		if pf.VFs[i].OwnerWhy == model.NotInPool {
			n++
		}
	}
	return n
}

// foreign lists a PF's VFs that are somebody else's although they are in the pool or held by a VM, and what shows it.
func foreign(pf *model.PF) string {
	var out []string
	for i := range pf.VFs {
		if v := &pf.VFs[i]; v.Owner == model.OwnerForeign && v.OwnerWhy != model.NotInPool {
			out = append(out, fmt.Sprintf("%s (%s)", v.ID, v.OwnerWhy))
		}
	}
	return strings.Join(out, ", ")
}

// vmAdvice lists why a VM cannot be given a VF.
func vmAdvice(s *model.Snapshot, vm *model.VM, nets map[string]bool) (out []model.Problem) {
	if vm.State == model.VMStopped {
		return nil
	}
	if text, remedy := stateAdvice(vm); text != "" {
		out = append(out, problem(vm.Name, text, remedy))
	}
	if len(vm.NICs) == 0 {
		return append(out, problem(vm.Name, "it has no virtio NIC to fall back to",
			"add <interface> with <model type='virtio'/> on the PF's bridge"))
	}
	if len(s.ForeignVFs(vm.ID)) > 0 {
		out = append(out, problem(vm.Name, "it has a VF that Sluice did not attach, so Sluice leaves it alone",
			"detach that VF if Sluice should decide"))
	}
	served := false
	for k := range vm.NICs {
		nic := &vm.NICs[k]
		if nic.Refused != "" && nic.Failover != model.FailoverNone {
			served = true
			why, remedy, _ := strings.Cut(nic.Refused, "; ")
			out = append(out, problem(vm.Name, "NIC "+nic.Alias+" can have no VF: "+why, remedy))
		} else if nets[nic.Network] {
			served = true
			out = nicTroubles(nicAdvice(out, vm, nic), vm, nic, nets)
		}
	}
	if !served && len(nets) > 0 && !allRefused(s) {
		out = append(out, problem(vm.Name, "none of its NICs is in the network of a PF of Sluice's pool",
			"list a PF of its network under pfs: in sluice.yaml, for a VM of OVN one in mode switchdev; or, if no controller manages its tap, "+
				"add that to the PF's bridge"))
	}
	return out
}

// allRefused reports whether VMs are in no PF's network perhaps only because none of Sluice's PFs is served, of which each PF says why.
func allRefused(s *model.Snapshot) (all bool) {
	for i := range s.PFs {
		if pf := &s.PFs[i]; pf.Managed {
			if pf.Uplink.Why == "" {
				return false
			}
			all = true
		}
	}
	return all
}

// Definition lists what a VM's definition lacks for VFs behind those of its NICs that are in the given networks; no networks
// means any. It ignores the current state of the guest and its taps.
func Definition(vm model.VM, nets map[string]bool) []model.Problem {
	vm.State, vm.NICs = model.VMRunning, slices.Clone(vm.NICs)
	if vm.Ready == model.No {
		vm.Ready = model.Yes
	}
	all := map[string]bool{}
	for i := range vm.NICs {
		vm.NICs[i].LinkUp = model.Yes
		all[vm.NICs[i].Network] = true
	}
	if len(nets) == 0 {
		nets = all
	}
	return vmAdvice(&model.Snapshot{}, &vm, nets)
}

// thenRestart must follow each change of a VM's definition.
const thenRestart = ", then shut the VM down and start it (a reboot inside the guest is not enough)"

// stateAdvice is about the VM as a whole.
func stateAdvice(vm *model.VM) (text, remedy string) {
	switch {
	case vm.State == model.VMMigrating:
		return "it is being migrated", "wait for the migration to end"
	case vm.State == model.VMPaused:
		return "it is paused", "virsh resume " + vm.Name
	case vm.Ready == model.No:
		return "its guest OS is not up: the guest agent's channel is not connected", "start qemu-guest-agent in the guest"
	case vm.Ready == model.Unknown:
		return "it has no guest agent channel, so Sluice cannot tell when its OS is up", "if the guest runs qemu-guest-agent: `sluice prepare " +
			vm.Name + " --agent`" + thenRestart
	}
	return "", ""
}

// nicAdvice appends what a NIC in the network of one of our PFs lacks.
func nicAdvice(out []model.Problem, vm *model.VM, nic *model.NIC) []model.Problem {
	if nic.Failover == model.FailoverNone && nic.VirtualPF == "" {
		out = append(out, problem(vm.Name, "NIC "+nic.Alias+" has no failover: the guest would not take a VF as its second path",
			"`sluice prepare "+vm.Name+"`"+thenRestart+"; or set up a bond in the guest and set failover: bond in sluice.yaml"))
	}
	if nic.VF != model.NoVF && nic.VFPath.Source == model.SourceAgent && nic.VFPath.Note != "" {
		out = append(out, problem(vm.Name, "its load on VF "+nic.VF.String()+" is not confirmed: "+nic.VFPath.Note,
			"check the guest and its qemu-guest-agent; the last known load counts for a while, "+
				"then the VM ranks as idle until it moves packets on virtio"))
	}
	if nic.LinkUp == model.No {
		out = append(out, problem(vm.Name,
			"tap "+nic.Tap+" of NIC "+nic.Alias+" is down or in no bridge that is up: the virtio path carries nothing",
			"ip link set "+nic.Tap+" up, and check its bridge"))
	}
	if nic.LinkUp == model.Unknown && nic.VirtualPF == "" { // a function may be on a vDPA device
		out = append(out, problem(vm.Name, "NIC "+nic.Alias+" has no tap on the host, so its load and its link are unknown",
			"use <interface type='bridge'> or 'network' in the host's network namespace"))
	}
	return out
}

// unique drops duplicates and keeps the order.
func unique(in []model.Problem) []model.Problem {
	seen := make(map[model.Problem]bool, len(in))
	return slices.DeleteFunc(in, func(p model.Problem) bool {
		again := seen[p]
		seen[p] = true
		return again
	})
}
