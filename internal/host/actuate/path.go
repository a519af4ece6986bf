package actuate

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// openWindow makes both paths receive.
func (a *Actuator) openWindow(ctx context.Context, s model.Step) error {
	note, err := a.steer.ToBoth(ctx, &s.Path)
	a.note(s, note)
	return err
}

// announce tells switches where the MAC is. They find out by themselves with the guest's
// next frame, so failing is no reason to take a move back.
func (a *Actuator) announce(ctx context.Context, s model.Step) error {
	if err := a.kernel.Announce(ctx, s.Path.MAC, s.Path.VLAN, s.Path.PF); err != nil {
		a.note(s, "switches were not told: "+err.Error())
	}
	return nil
}

// addSelf makes the PF take frames for the MAC from VFs and the wire. A driver without
// filters, or without a free one, is no error: the VM does without.
func (a *Actuator) addSelf(ctx context.Context, s model.Step) error {
	err := a.kernel.AddSelf(ctx, s.Path.PF, s.Path.MAC)
	for _, refusal := range []error{unix.ENOMEM, unix.ENOSPC, unix.EOPNOTSUPP} {
		if errors.Is(err, refusal) {
			a.note(s, "VFs cannot reach this VM's virtio NIC: "+err.Error())
			return nil
		}
	}
	return err
}
