package actuate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/internal/host/libvirt"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// setUp configures a VF for its VM.
func (a *Actuator) setUp(ctx context.Context, s model.Step) error {
	if err := a.unclaimed(ctx, s.Subject.VM, s.VF.Address, s.VF.MAC); err != nil {
		return err
	}
	switch s.Kind {
	case model.StepBindVFIO:
		return a.kernel.BindVFIO(ctx, s.VF.Address)
	case model.StepSetMAC:
		return a.kernel.SetVFMAC(ctx, s.VF.ID.PF, s.VF.ID.Index, s.VF.MAC)
	}
	note, err := a.kernel.SetVF(ctx, s.VF.ID.PF, s.VF.ID.Index, vf.Settings{
		VLAN: s.VF.VLAN, SpoofCheck: true, MaxTxRate: s.VF.MaxTxRate, MinTxRate: s.VF.MinTxRate,
	})
	a.note(s, note)
	if err == nil && s.VF.Port != "" {
		_, err = a.police(ctx, s.VF.Port, s.VF.MaxPackets)
	}
	return err
}

// clearVF resets a VF. No domain may have it: a guest that still has it would receive nothing, and its failover would not notice. It is not
// an error if the VF is gone.
func (a *Actuator) clearVF(ctx context.Context, s model.Step) error {
	if err := a.released(ctx, s.VF.Address); err != nil {
		return err
	}
	note, err := a.kernel.ClearVF(ctx, s.VF.ID.PF, s.VF.ID.Index)
	a.note(s, note)
	if errors.Is(err, model.ErrGone) {
		err = nil
	}
	if s.VF.Port != "" {
		_, failed := a.police(ctx, s.VF.Port, 0)
		err = errors.Join(err, failed)
	}
	return err
}

// unclaimed fails if the VF is held by anything but Sluice's attachment of it for this VM and MAC.
func (a *Actuator) unclaimed(ctx context.Context, vm model.VMID, addr model.PCIAddress, mac model.MAC) error {
	d, h, err := a.holder(ctx, addr)
	if err != nil || h == nil || d.ID == vm && h.Alias == model.PassthroughAlias(mac) {
		return err
	}
	return fmt.Errorf("%w: %s has the VF as %s", model.ErrPermanent, d.Name, h.Alias)
}

// settle is how long libvirt's inventory may lag behind a removal; settleStep is the interval between checks.
const (
	settle     = 2 * time.Second
	settleStep = 100 * time.Millisecond
)

// released fails if any domain has the VF. Libvirt reports a removal slightly before its inventory shows it, so released checks repeatedly.
func (a *Actuator) released(ctx context.Context, addr model.PCIAddress) error {
	wait, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	tick := time.NewTicker(settleStep)
	defer tick.Stop()
	for {
		d, h, err := a.holder(ctx, addr)
		if err != nil || h == nil {
			return err
		}
		select {
		case <-tick.C:
		case <-wait.Done():
			return fmt.Errorf("%s still has the VF as %s", d.Name, h.Alias)
		}
	}
}

// holder finds the domain that has the PCI device, and the hostdev; nil if none has it.
func (a *Actuator) holder(ctx context.Context, addr model.PCIAddress) (*libvirt.Domain, *libvirt.Hostdev, error) {
	all, err := a.domains.Domains(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("find the holder of VF %s: %w", addr, err)
	}
	d, h := holderOf(all, addr)
	return d, h, nil
}

func holderOf(all []libvirt.Domain, addr model.PCIAddress) (*libvirt.Domain, *libvirt.Hostdev) {
	for i := range all {
		for k := range all[i].Hostdevs {
			if h := &all[i].Hostdevs[k]; h.Address == addr {
				return &all[i], h
			}
		}
	}
	return nil, nil
}
