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

// waitGuest waits until the guest's driver has opened the VF and, if the Step names a port, until the guest sends through it. It gives up
// if the VM goes away.
func (a *Actuator) waitGuest(ctx context.Context, s model.Step) error {
	before := uint64(0)
	if s.Device.Port != "" {
		before, _ = a.heard(ctx, s.Device.Port)
	}
	wait, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		a.whileThere(wait, s.Subject.VM, cancel)
	}()
	err := a.kernel.WaitDriver(wait, s.Device.Address, true)
	if err == nil && s.Device.Port != "" {
		a.waitFrame(wait, s.Device.Port, before)
	}
	gone := context.Cause(wait)
	cancel(nil)
	<-watched
	if err != nil && errors.Is(gone, model.ErrGone) {
		return gone
	}
	return err
}

// silentFor is how long a guest whose driver has opened its VF may send nothing through it before it is taken to have nothing to send.
// A VF reports its link up to two seconds after it can receive.
const silentFor = 3 * time.Second

// heard returns how many frames have come in from a VF at its representor.
func (a *Actuator) heard(ctx context.Context, port string) (uint64, error) {
	l, err := a.kernel.Link(ctx, port)
	return l.Counters.RxPackets, err
}

// waitFrame waits until more frames have come in than before, for silentFor at most. That a representor is gone is for the next Steps to
// say.
func (a *Actuator) waitFrame(ctx context.Context, port string, before uint64) {
	ctx, cancel := context.WithTimeout(ctx, silentFor)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if n, err := a.heard(ctx, port); err != nil || n > before {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
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
