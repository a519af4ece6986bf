package actuate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sluice/internal/host/kernel"
	"sluice/internal/host/libvirt"
	"sluice/internal/model"
)

// checkVirtio fails unless the VM can live on its virtio NIC alone. It comes before
// anything that takes the other path away.
func (a *Actuator) checkVirtio(ctx context.Context, s model.Step) error {
	d, err := a.domain(ctx, s.Subject.VM)
	if err != nil {
		return err
	}
	if err := checkDomain(d, s); err != nil {
		return err
	}
	if !slices.ContainsFunc(d.Hostdevs, func(h libvirt.Hostdev) bool { return h.Address == s.Device.Address }) {
		if err := a.unshared(ctx, s); err != nil { // it is to get the VF
			return err
		}
	}
	return a.checkTap(ctx, s)
}

// domain finds an active domain. If there is none the error wraps model.ErrGone.
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

// checkDomain fails unless the domain runs and still has the NIC as it was planned.
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

// checkTap fails unless the tap is up, held open by QEMU, and a port of the right bridge.
// That it is not there is no ErrGone: the VM is, and must not be given up for gone.
func (a *Actuator) checkTap(ctx context.Context, s model.Step) error {
	tap, err := a.kernel.Link(ctx, s.Path.Tap)
	switch {
	case errors.Is(err, model.ErrGone):
		return fmt.Errorf("tap %s is not there", s.Path.Tap)
	case err != nil:
		return err
	case !tap.Up:
		return fmt.Errorf("tap %s is down: ip link set %s up", s.Path.Tap, s.Path.Tap)
	case !tap.Carrier:
		return fmt.Errorf("tap %s has no carrier: the domain does not hold it open, or its link is set down", s.Path.Tap)
	case tap.Master == 0:
		return fmt.Errorf("tap %s is in no bridge: ip link set %s master %s", s.Path.Tap, s.Path.Tap, s.Path.Network)
	}
	links, err := a.kernel.Links(ctx)
	if err != nil {
		return err
	}
	return checkBridge(links, tap, s)
}

// checkBridge fails unless the tap's bridge is up and the planned one. Of other kinds
// of switch the kernel does not show which one a port belongs to.
func checkBridge(links []kernel.Link, tap kernel.Link, s model.Step) error {
	for _, l := range links {
		switch {
		case l.Index != tap.Master:
		case !l.Up:
			return fmt.Errorf("%s, which tap %s is a port of, is down", l.Name, s.Path.Tap)
		case l.Kind == "bridge" && l.Name != s.Path.Network:
			return fmt.Errorf("tap %s is in bridge %s, not %s", s.Path.Tap, l.Name, s.Path.Network)
		default:
			return nil
		}
	}
	return fmt.Errorf("tap %s is a port of link %d, which is not there", s.Path.Tap, tap.Master)
}
