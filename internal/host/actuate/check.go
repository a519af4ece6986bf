package actuate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/internal/host/libvirt"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// checkVirtio fails unless the VM can work with its virtio NIC alone. It runs before any Step that removes the other path.
func (a *Actuator) checkVirtio(ctx context.Context, up uplink.Writer, s model.Step) error {
	d, err := a.domain(ctx, s.Subject.VM)
	if err != nil {
		return err
	}
	if err := checkDomain(d, s); err != nil {
		return err
	}
	if !slices.ContainsFunc(d.Hostdevs, func(h libvirt.Hostdev) bool { return h.Address == s.Device.Address }) {
		if err := a.unshared(ctx, s); err != nil { // the VM is about to get the VF
			return err
		}
		if err := a.bonded(ctx, s); err != nil {
			return err
		}
	}
	return up.Check(ctx, &s.Path)
}

// agentWithin is how long a guest may take to say whether it has a bond.
const agentWithin = time.Second

// bonded fails if a VM whose guest should have a bond has none, as far as its agent tells: the guest would take a VF for a second NIC.
func (a *Actuator) bonded(ctx context.Context, s model.Step) error {
	if s.Device.Failover != model.FailoverBond || a.Guests == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, agentWithin)
	defer cancel()
	n, err := a.Guests.WithMAC(ctx, s.Subject.VM, s.Device.MAC)
	if err != nil || n != 1 { // unknown, or a guest that changes the MAC of its NIC
		return nil //nolint:nilerr // most guests need no agent
	}
	return fmt.Errorf("%w: sluice.yaml says failover: bond, but in the guest only one interface has MAC %s, so nothing is above it that "+
		"could use a VF: make a bond in the guest (docs/guests.md), or leave failover out", model.ErrPermanent, s.Device.MAC)
}

// domain finds an active domain. If there is none, the error wraps model.ErrGone.
func (a *Actuator) domain(ctx context.Context, vm model.VMID) (*libvirt.Domain, error) {
	all, err := a.domains.Domains(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].ID == vm {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("domain %s: %w", vm, model.ErrGone)
}

// checkDomain fails unless the domain is running and still has the NIC as planned.
func checkDomain(d *libvirt.Domain, s model.Step) error {
	if d.State != model.VMRunning {
		return fmt.Errorf("the domain is %s", d.State)
	}
	nic := d.FindNIC(s.Device.NIC)
	switch {
	case nic == nil:
		return fmt.Errorf("%w: the domain has no virtio NIC %s", model.ErrPermanent, s.Device.NIC)
	case nic.MAC != s.Device.MAC:
		return fmt.Errorf("%w: virtio NIC %s has MAC %s now, not %s", model.ErrPermanent, s.Device.NIC, nic.MAC, s.Device.MAC)
	case nic.Tap != s.Path.Tap:
		return fmt.Errorf("virtio NIC %s has tap %s now, not %s", s.Device.NIC, nic.Tap, s.Path.Tap)
	case s.Device.Failover == model.FailoverTeaming && nic.Failover != model.FailoverTeaming:
		return fmt.Errorf("%w: virtio NIC %s has no <teaming type='persistent'/>", model.ErrPermanent, s.Device.NIC)
	}
	return nil
}
