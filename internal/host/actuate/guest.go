package actuate

import (
	"context"
	"errors"
	"time"

	"sluice/internal/host/libvirt"
	"sluice/internal/model"
)

// attach gives the VF to the VM, as the second path of its NIC.
func (a *Actuator) attach(ctx context.Context, s model.Step) error {
	if err := a.unclaimed(ctx, s.Subject.VM, s.Device.Address, s.Device.MAC); err != nil {
		return err
	}
	spec := libvirt.HostdevSpec{Alias: model.PassthroughAlias(s.Device.MAC), Address: s.Device.Address}
	if s.Device.Failover == model.FailoverTeaming {
		spec.TeamingPersistent = s.Device.NIC
	}
	return a.domains.Attach(ctx, s.Subject.VM, spec)
}

// waitGuest waits until the guest's driver has opened the VF. It gives up if the VM goes away.
func (a *Actuator) waitGuest(ctx context.Context, s model.Step) error {
	wait, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		a.whileThere(wait, s.Subject.VM, cancel)
	}()
	err := a.kernel.WaitDriver(wait, s.Device.Address, true)
	gone := context.Cause(wait)
	cancel(nil)
	<-watched
	if err != nil && errors.Is(gone, model.ErrGone) {
		return gone
	}
	return err
}

// lookEvery is the interval at which a wait checks that its VM still exists.
const lookEvery = 250 * time.Millisecond

// whileThere cancels with model.ErrGone when the VM goes away, and returns when ctx ends. A missing answer from libvirt says nothing about
// the VM.
func (a *Actuator) whileThere(ctx context.Context, vm model.VMID, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if _, err := a.domain(ctx, vm); errors.Is(err, model.ErrGone) {
			cancel(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
