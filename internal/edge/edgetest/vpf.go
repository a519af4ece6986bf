package edgetest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"sluice/api/v1"
	"sluice/internal/model"
)

// VirtualPFs keeps definitions in memory, as the controller does: of VMs that are off, whose functions have no tap yet.
// Define fails for the VM "runs"; VF 0 of each definition after the first is in use.
type VirtualPFs struct {
	mu  sync.Mutex
	all []model.VirtualPFStatus
}

// List implements server.VirtualPFs.
func (v *VirtualPFs) List(context.Context) ([]model.VirtualPFStatus, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.all), nil
}

// Define implements server.VirtualPFs.
func (v *VirtualPFs) Define(_ context.Context, p model.VirtualPF) (model.VirtualPF, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p.VMName == "runs" {
		return p, &api.Error{
			Text:   "runs is running, and a virtual PF cannot be plugged into a running VM",
			Remedy: "shut it down first: virsh shutdown runs",
		}
	}
	if p.VM == "" {
		p.VM = ID(7)
	}
	p.VFs, p.MAC = slices.Clone(p.VFs), model.MAC{0x52, 0x54, 0, 0x77, byte(len(v.all)), 0}
	s := model.VirtualPFStatus{VirtualPF: p, Why: "its VM is off"}
	s.Functions = append(s.Functions, model.FunctionStatus{VF: -1, Alias: p.PFAlias(), MAC: p.MAC})
	for i := range p.VFs {
		p.VFs[i].MAC = model.MAC{0x52, 0x54, 0, 0x77, byte(len(v.all)), byte(i + 1)}
		s.Functions = append(s.Functions, model.FunctionStatus{VF: i, Alias: p.VFAlias(i), MAC: p.VFs[i].MAC})
	}
	if len(v.all) > 0 {
		p.VFs[0].Grant = &model.VFGrant{Owner: "c1/net1", Port: model.PortPolicy{VLAN: 20}}
		s.Running, s.Why = true, ""
		f := &s.Functions[1]
		f.Tap, f.Carrier, f.InForce, f.Owner, f.Drops = "vnet5", model.Yes, true, "c1/net1", model.SwitchDrop{Spoof: 3, Rate: 12}
		f = &s.Functions[2]
		f.Tap, f.Carrier, f.Why = "vnet6", model.No, "nobody in the guest has it"
		f.Problems = []model.Problem{{Subject: p.VMName, Text: "VF 1 has another MAC in libvirt", Remedy: "put it back"}}
	}
	v.all = append(v.all, s)
	return p, nil
}

// Undefine implements server.VirtualPFs.
func (v *VirtualPFs) Undefine(_ context.Context, vm model.VMID, name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = slices.DeleteFunc(v.all, func(s model.VirtualPFStatus) bool { return s.VM == vm && s.Name == name })
	return nil
}

// SetPorts implements server.VirtualPFs.
func (v *VirtualPFs) SetPorts(_ context.Context, vm model.VMID, name string, vfs []int, _ model.PortFields,
	change func(*model.PortPolicy) error,
) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.all {
		if s := &v.all[i]; s.VM == vm && s.Name == name {
			changed := slices.Clone(s.VFs)
			for _, vf := range vfs {
				if err := change(&changed[vf].Port); err != nil {
					return err
				}
			}
			s.VFs = changed
			return nil
		}
	}
	return fmt.Errorf("no virtual PF %s", name)
}
