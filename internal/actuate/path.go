package actuate

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"sluice/internal/kernel"
	"sluice/internal/model"
)

// window is the Window of a Step.
func window(s model.Step) kernel.Window {
	return kernel.Window{MAC: s.Path.MAC, Tap: s.Path.Tap, PF: s.Path.PF, VLAN: s.Path.VLAN}
}

// openWindow makes both paths receive. The bridge must not learn from the PF's port, or
// the copies that come back through it teach it the wrong side.
func (a *Actuator) openWindow(ctx context.Context, s model.Step) error {
	if err := a.kernel.PreparePort(ctx, s.Path.PF); err != nil {
		return err
	}
	note, err := a.kernel.OpenWindow(ctx, window(s))
	a.note(s, note)
	return err
}

// closeWindow ends it. After a VM that is gone it also removes the bridge entry that
// may still send the VM's frames to the PF.
func (a *Actuator) closeWindow(ctx context.Context, s model.Step) error {
	err := a.kernel.CloseWindow(ctx, window(s))
	if err != nil && !errors.Is(err, model.ErrGone) {
		return err
	}
	if s.Path.PF != "" && a.tapGone(ctx, s) {
		return a.kernel.UnpinFDB(ctx, s.Path.MAC, s.Path.VLAN, s.Path.PF)
	}
	return nil
}

// fdbToTap sends the MAC's frames to the tap. Where the tap is gone it only sees to it
// that they no longer go to the PF.
func (a *Actuator) fdbToTap(ctx context.Context, s model.Step) error {
	err := a.kernel.PinFDB(ctx, s.Path.MAC, s.Path.VLAN, s.Path.Tap)
	if err != nil && a.tapGone(ctx, s) {
		return a.kernel.UnpinFDB(ctx, s.Path.MAC, s.Path.VLAN, s.Path.PF)
	}
	return err
}

// tapGone says whether there certainly is no tap.
func (a *Actuator) tapGone(ctx context.Context, s model.Step) bool {
	if s.Path.Tap == "" {
		return true
	}
	_, err := a.kernel.Link(ctx, s.Path.Tap)
	return errors.Is(err, model.ErrGone)
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
