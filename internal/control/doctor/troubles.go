package doctor

import (
	"fmt"

	"sluice/internal/model"
)

// Troubles lists the misconfigurations that a Snapshot itself shows. They are part of its Problems, together with what could
// not be read.
func Troubles(s *model.Snapshot) []model.Problem {
	var out []model.Problem
	for i := range s.PFs {
		out = append(out, pfTroubles(&s.PFs[i])...)
	}
	nets := Networks(s)
	for i := range s.VMs {
		vm := &s.VMs[i]
		for k := range vm.NICs {
			out = nicTroubles(out, vm, &vm.NICs[k], nets)
		}
	}
	return out
}

// pfTroubles lists those of a PF that cut VMs off.
func pfTroubles(pf *model.PF) []model.Problem {
	if !pf.Managed {
		return nil
	}
	var out []model.Problem
	if pf.NumVFs == 0 {
		out = append(out, problem(pf.Name, "it has no VFs",
			fmt.Sprintf("echo N > /sys/class/net/%s/device/sriov_numvfs, with N up to %d", pf.Name, pf.TotalVFs)))
	}
	if !pf.LinkUp {
		out = append(out, problem(pf.Name, "its link is down: none of its VFs carries traffic",
			"ip link set "+pf.Name+" up, and check the cable and the switch"))
	}
	if pf.Uplink.Why != "" {
		out = append(out, problem(pf.Name, "no VM can use its VFs: "+pf.Uplink.Why, pf.Uplink.Remedy))
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
		out = append(out, problem(vm.Name, "its load on VF "+nic.VF.String()+" will soon be unknown: "+nic.VFPath.Note,
			"run qemu-guest-agent in the guest, with a channel org.qemu.guest_agent.0 in the domain"))
	case nic.VF == model.NoVF && nic.Failover != model.FailoverNone && nic.FreePort == model.No:
		out = append(out, problem(vm.Name, "it has no free PCIe root port, so no VF can be plugged",
			"`sluice prepare "+vm.Name+"`"+thenRestart))
	}
	return out
}

// Networks returns the networks that Sluice's PFs lead to.
func Networks(snap *model.Snapshot) map[string]bool {
	nets := map[string]bool{}
	for i := range snap.PFs {
		if pf := &snap.PFs[i]; pf.Managed && pf.Network != "" {
			nets[pf.Network] = true
		}
	}
	return nets
}
