package plan

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/internal/model"
)

// Kept names the incoming VM that a VF is reserved for. Snapshots show the VF as somebody else's.
type Kept struct {
	VM   model.VMID
	MAC  model.MAC // of the VM's NIC
	Free bool      // the VF would be free without the reservation
}

// ForIncoming chooses a VF for each of an incoming VM's NICs and lists the Steps that prepare it. QEMU attaches the VF as soon as
// the guest resumes here, so everything but the bridge's entry must be set by then, and add-self and set-mac not much earlier:
// see [AtArrival]. A NIC gets the VF that is kept for it, if there is one, so that a retried migration takes only one VF. taken
// reports VFs that are not available for other reasons. Of nics, it uses alias, MAC, network and VLAN; an empty network means the
// only one that managed PFs have. It fails if the VLAN may be another than the XML's, which the VF would be in until the next Snapshot.
func ForIncoming(snap *model.Snapshot, vm model.Subject, nics []model.NIC, kept map[model.VFID]Kept, taken func(model.VFID) bool,
	to Timeouts,
) ([]model.Step, error) {
	used := map[model.VFID]bool{}
	var out []model.Step
	for i := range nics {
		nic := nics[i]
		named := nic.Network != "" || nic.VLAN != 0
		if nic.Network == "" {
			nic.Network = onlyNetwork(snap)
		}
		mine := func(vf *model.VF) bool {
			k, is := kept[vf.ID]
			return is && k.Free && k.VM == vm.VM && k.MAC == nic.MAC && !used[vf.ID] && !taken(vf.ID)
		}
		free := func(vf *model.VF) bool {
			_, is := kept[vf.ID]
			return !is && vf.Owner == model.OwnerFree && !used[vf.ID] && !taken(vf.ID)
		}
		vf := cmp.Or(findVF(snap, nic.Network, mine), findVF(snap, nic.Network, free))
		if vf == nil {
			return nil, fmt.Errorf("no VF is free here for NIC %s of %s on network %q", nic.MAC, vm.VMName, nic.Network)
		}
		if pf := snap.FindPF(vf.ID.PF); !named && pf.Uplink.VLANFromNetwork {
			return nil, fmt.Errorf("the VLAN of NIC %s of %s is not in its XML, as its libvirt network may set it, and its VF needs it when "+
				"the guest resumes; write <vlan> into the interface, or use <interface type='bridge'>", nic.MAC, vm.VMName)
		}
		used[vf.ID] = true
		p := payloads(snap, &model.VM{ID: vm.VM, Name: vm.VMName}, &nic, vf)
		out = append(out, steps(p, []model.StepKind{model.StepBindVFIO, model.StepSetVF, model.StepAddSelf, model.StepSetMAC}, to)...)
	}
	return out, nil
}

// AtArrival reports whether a Step for an incoming VM directs its frames to this host. Before the VM resumes here, that would cut
// it off from the host's other VMs. From then until its driver has opened the VF, only the PF's filter leads to its virtio NIC.
func AtArrival(k model.StepKind) bool { return k == model.StepAddSelf || k == model.StepSetMAC }

// findVF returns the first VF on that network for which ok is true, or nil.
func findVF(snap *model.Snapshot, network string, ok func(*model.VF) bool) *model.VF {
	for i := range snap.PFs {
		pf := &snap.PFs[i]
		if !pf.Managed || pf.Network != network || network == "" || pf.Uplink.Why != "" {
			continue
		}
		if j := slices.IndexFunc(pf.VFs, func(vf model.VF) bool { return ok(&vf) }); j >= 0 {
			return &pf.VFs[j]
		}
	}
	return nil
}

// onlyNetwork returns the network of the managed PFs, "" if they have several.
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
