package plan

import (
	"fmt"

	"sluice/internal/model"
)

// ForIncoming chooses a VF for each NIC that a VM which migrates in brings one for, and lists
// the Steps that ready it. QEMU attaches it as soon as the guest goes on here, so all but the bridge's entry must
// be set by then, and add-self and set-mac not much before: see [AtArrival]. taken says which VFs others wait for. Of the NICs, alias, MAC, network and VLAN are used; a network "" is any, if there is but one.
func ForIncoming(snap *model.Snapshot, vm model.Subject, nics []model.NIC, taken func(model.VFID) bool, to Timeouts) ([]model.Step, error) {
	used := map[model.VFID]bool{}
	var out []model.Step
	for i := range nics {
		nic := nics[i]
		if nic.Network == "" {
			nic.Network = onlyNetwork(snap)
		}
		vf := freeVF(snap, nic.Network, func(id model.VFID) bool { return used[id] || taken(id) })
		if vf == nil {
			return nil, fmt.Errorf("no VF is free here for NIC %s of %s on network %q", nic.MAC, vm.VMName, nic.Network)
		}
		used[vf.ID] = true
		p := payloads(snap, &model.VM{ID: vm.VM, Name: vm.VMName}, &nic, vf)
		out = append(out, steps(p, []model.StepKind{model.StepBindVFIO, model.StepSetVF, model.StepAddSelf, model.StepSetMAC}, to)...)
	}
	return out, nil
}

// AtArrival says whether a Step for a VM that migrates in leads its frames to this host. Before the VM goes on here, that would
// cut it off from the host's other VMs. From then until its driver has opened the VF, only the PF's filter leads to its virtio NIC.
func AtArrival(k model.StepKind) bool { return k == model.StepAddSelf || k == model.StepSetMAC }

// freeVF is a VF on that network that nobody has, or nil.
func freeVF(snap *model.Snapshot, network string, taken func(model.VFID) bool) *model.VF {
	for i := range snap.PFs {
		pf := &snap.PFs[i]
		if !pf.Managed || pf.Network != network || network == "" || pf.Uplink.Why != "" {
			continue
		}
		for j := range pf.VFs {
			if vf := &pf.VFs[j]; vf.Owner == model.OwnerFree && !taken(vf.ID) {
				return vf
			}
		}
	}
	return nil
}

// onlyNetwork is the network of all managed PFs, "" if they have several.
func onlyNetwork(snap *model.Snapshot) (only string) {
	for i := range snap.PFs {
		switch pf := &snap.PFs[i]; {
		case !pf.Managed || pf.Network == "" || pf.Network == only:
		case only != "":
			return ""
		default:
			only = pf.Network
		}
	}
	return only
}
