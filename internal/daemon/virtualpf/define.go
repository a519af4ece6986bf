package virtualpf

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sluice/internal/control/vpf"
	"sluice/internal/model"
)

// Define creates a virtual PF. Its VM must be shut off, since QEMU cannot add one to a running VM.
func (m *Manager) Define(ctx context.Context, p model.VirtualPF) (model.VirtualPF, error) {
	store := m.Runner.Store
	if !m.Runner.Enforce() {
		return p, errObserve
	}
	if p.Name == "" {
		p.Name = store.State().FreeName(&p)
	}
	if p.Backend == model.BackendVDPA {
		vpf.VDPADefaults(&p)
	}
	if err := vpf.CheckDefinition(&p); err != nil {
		return p, err
	}
	if p.VM != "" && store.State().Find(p.VM, p.Name) != nil {
		return p, hasAlready(&p)
	}
	if err := m.checkMACs(ctx, &p); err != nil {
		return p, err
	}
	for i := range p.VFs {
		p.VFs[i].Grant = nil
	}
	p.Defined = m.Now()
	if err := m.Runner.Domains.DefineVPF(ctx, &p); err != nil {
		return p, err
	}
	known := false
	state, err := store.Update(func(s *vpf.State) error {
		if known = s.Find(p.VM, p.Name) != nil; known {
			return hasAlready(&p)
		}
		s.Put(p)
		return nil
	})
	if known { // libvirt's devices belong to the existing, identical definition: keep them
		return p, err
	}
	if err != nil {
		return p, errors.Join(err, m.Runner.Domains.UndefineVPF(context.WithoutCancel(ctx), p.VM, p.Name))
	}
	m.changed()
	// List reflects the definition now, so that the caller can configure the virtual PF at once.
	_, _ = m.await(ctx, func(v *View) bool { return v.Rev >= state.Rev })
	return p, m.awaitDevices(ctx, &p, state.Rev)
}

// awaitDevices waits until the VM can be started with its new virtual PF.
func (m *Manager) awaitDevices(ctx context.Context, p *model.VirtualPF, rev uint64) error {
	if p.Backend != model.BackendVDPA {
		return nil
	}
	for i := -1; i < len(p.VFs); i++ {
		if err := m.settled(ctx, vpf.Function{VM: p.VM, Name: p.Name, VF: i}, rev); err != nil {
			return fmt.Errorf("virtual PF %s is defined, but its VM cannot start yet: %w", p.Name, err)
		}
	}
	return nil
}

func hasAlready(p *model.VirtualPF) error {
	return fmt.Errorf("VM %s has a virtual PF %s already: choose another --name, or remove that one with `sluice vpf undefine`",
		p.VMName, p.Name)
}

// checkMACs rejects MACs of a new virtual PF that are in use. libvirt itself checks the MACs of the functions; the VM's own XML may contain
// them after an interrupted definition.
func (m *Manager) checkMACs(ctx context.Context, p *model.VirtualPF) error {
	list := []model.MAC{p.MAC}
	for i := range p.VFs {
		if err := m.unused(ctx, p.VFs[i].Port.MACs...); err != nil {
			return err
		}
		list = append(append(list, p.VFs[i].MAC), p.VFs[i].Port.MACs...)
	}
	for i, mac := range list {
		if mac.IsZero() {
			continue // libvirt will be given a generated one
		}
		if err := vpf.CheckMAC(mac); err != nil {
			return err
		}
		if slices.Contains(list[:i], mac) {
			return fmt.Errorf("MAC %s is listed twice", mac)
		}
		if has := m.owner(mac, vpf.Function{}); has != "" {
			return &usedMAC{mac, has}
		}
	}
	return nil
}

// owner describes who uses a MAC on the host, other than the function except; "" if nobody does.
func (m *Manager) owner(mac model.MAC, except vpf.Function) string {
	v, _ := m.Runner.View()
	if all, err := vpf.AllMACs(m.Runner.Store.State(), &except); err == nil {
		if f, ok := all[mac]; ok {
			return f.String()
		}
	}
	if v.World == nil {
		return ""
	}
	for i := range v.World.VMs {
		vm := &v.World.VMs[i]
		for k := range vm.NICs {
			n := &vm.NICs[k]
			if f := (vpf.Function{VM: vm.ID, Name: n.VirtualPF, VF: n.Function - 1}); n.MAC == mac && (n.VirtualPF == "" || f != except) {
				return fmt.Sprintf("NIC %s of VM %s", n.Alias, vm.Name)
			}
		}
	}
	return ""
}

// Undefine removes a virtual PF from its VM, which must not be running with it. It is not an error if the virtual PF is missing from
// the file or from libvirt.
func (m *Manager) Undefine(ctx context.Context, vm model.VMID, name string) error {
	if !m.Runner.Enforce() {
		return errObserve
	}
	v, _ := m.Runner.View()
	if v.Err != nil {
		return fmt.Errorf("cannot find out whether the VM runs: %w", v.Err)
	}
	if running := v.World.FindVM(vm); running != nil &&
		slices.ContainsFunc(running.NICs, func(n model.NIC) bool { return n.VirtualPF == name }) {
		return fmt.Errorf("VM %s runs with virtual PF %s, and QEMU cannot remove it: shut the VM off first (virsh shutdown %s)",
			running.Name, name, running.Name)
	}
	if err := m.Runner.Domains.UndefineVPF(ctx, vm, name); err != nil && !errors.Is(err, model.ErrGone) {
		return err
	}
	_, err := m.Runner.Store.Update(func(s *vpf.State) error { s.Drop(vm, name); return nil })
	m.changed()
	return err
}
