package observe

import (
	"fmt"
	"slices"

	"sluice/internal/model"
)

// problems lists what could not be read and what is set up wrongly.
func (s *Source) problems(snap *model.Snapshot, pool Pool, trouble []model.Problem) []model.Problem {
	out := slices.Concat(s.inv.problems, trouble)
	out = append(out, poolProblems(snap, pool)...)
	for i := range snap.PFs {
		pf := &snap.PFs[i]
		if was, ok := s.numVFs[pf.Name]; ok && was != pf.NumVFs && pf.Managed {
			out = append(out, model.Problem{
				Subject: pf.Name,
				Text:    fmt.Sprintf("sriov_numvfs changed from %d to %d since the config was read", was, pf.NumVFs),
				Remedy:  "reload the config when this is meant to be",
			})
		}
		out = append(out, pfTroubles(pf)...)
	}
	nets := managedNetworks(snap)
	for i := range snap.VMs {
		vm := &snap.VMs[i]
		for k := range vm.NICs {
			out = nicTroubles(out, vm, &vm.NICs[k], nets)
		}
	}
	return out
}

// poolProblems compares the pool with the PFs and VFs that exist.
func poolProblems(snap *model.Snapshot, pool Pool) []model.Problem {
	var out []model.Problem
	for name, want := range pool {
		pf := snap.FindPF(name)
		if pf == nil {
			out = append(out, model.Problem{
				Subject: name, Text: "the config lists it, but there is no such PF",
				Remedy: "correct pfs: in sluice.yaml, or check that the driver is loaded and the interface is in this network namespace",
			})
			continue
		}
		for _, i := range want.VFs {
			if i >= pf.NumVFs && !want.All {
				out = append(out, model.Problem{
					Subject: model.VFID{PF: name, Index: i}.String(),
					Text:    fmt.Sprintf("the config lists it, but %s has %d VFs", name, pf.NumVFs),
					Remedy:  "correct pfs: in sluice.yaml, or set sriov_numvfs",
				})
			}
		}
	}
	slices.SortFunc(out, bySubject)
	return out
}

// pfTroubles are those of a PF that its Snapshot shows and that cut machines off.
func pfTroubles(pf *model.PF) []model.Problem {
	if !pf.Managed {
		return nil
	}
	var out []model.Problem
	if pf.NumVFs == 0 {
		out = append(out, model.Problem{
			Subject: pf.Name, Text: "it has no VFs",
			Remedy: fmt.Sprintf("echo N > /sys/class/net/%s/device/sriov_numvfs, with N up to %d", pf.Name, pf.TotalVFs),
		})
	}
	if !pf.LinkUp {
		out = append(out, model.Problem{
			Subject: pf.Name, Text: "its link is down: no VF of it carries anything",
			Remedy: "ip link set " + pf.Name + " up, and check the cable and the switch",
		})
	}
	if pf.Uplink.Why != "" {
		out = append(out, model.Problem{Subject: pf.Name, Text: "no VM can use its VFs: " + pf.Uplink.Why, Remedy: pf.Uplink.Remedy})
	}
	return out
}

// nicTroubles appends those of a NIC that Sluice could serve.
func nicTroubles(out []model.Problem, vm *model.VM, nic *model.NIC, nets map[string]bool) []model.Problem {
	if !nets[nic.Network] || vm.State == model.VMStopped {
		return out
	}
	switch {
	case nic.VF != model.NoVF && nic.VFPath.Source == model.SourceNone && nic.VFPath.Note != "":
		out = append(out, model.Problem{
			Subject: vm.Name, Text: "its load on VF " + nic.VF.String() + " cannot be told for long: " + nic.VFPath.Note,
			Remedy: "run qemu-guest-agent in the guest, with a channel org.qemu.guest_agent.0 in the domain",
		})
	case nic.VF == model.NoVF && nic.Failover != model.FailoverNone && nic.FreePort == model.No:
		out = append(out, model.Problem{
			Subject: vm.Name, Text: "it has no free PCIe root port, so no VF can be plugged",
			Remedy: "add <controller type='pci' model='pcie-root-port'/> to the domain and start it anew",
		})
	}
	return out
}

// managedNetworks are the networks that Sluice's PFs lead to.
func managedNetworks(snap *model.Snapshot) map[string]bool {
	nets := map[string]bool{}
	for i := range snap.PFs {
		if pf := &snap.PFs[i]; pf.Managed && pf.Network != "" {
			nets[pf.Network] = true
		}
	}
	return nets
}

func bySubject(a, b model.Problem) int {
	switch {
	case a.Subject < b.Subject:
		return -1
	case a.Subject > b.Subject:
		return 1
	}
	return 0
}
