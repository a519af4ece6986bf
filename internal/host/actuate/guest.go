package actuate

import (
	"context"
	"errors"
	"time"

	"sluice/internal/base/sleep"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
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
	before := a.heardSoFar(ctx, s.Device.Port)
	wait, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		a.whileThere(wait, s.Subject.VM, cancel)
	}()
	err := a.kernel.WaitDriver(wait, s.Device.Address, true)
	if err == nil {
		a.waitFrame(wait, s.Device.Port, before, model.SilentFor)
	}
	gone := context.Cause(wait)
	cancel(nil)
	<-watched
	if errors.Is(gone, model.ErrGone) {
		return gone
	}
	return err
}

// heard returns how many frames have come in from a VF at its representor, or why that cannot be said. No name is no representor.
func (a *Actuator) heard(ctx context.Context, port string) (c count) {
	if port != "" {
		var l netdev.Link
		l, c.err = a.kernel.Link(ctx, port)
		c.frames = l.Counters.RxPackets
	}
	return c
}

// heardSoFar is heard of now. mlx5 answers with what its counters were at the last reading, so there are two.
func (a *Actuator) heardSoFar(ctx context.Context, port string) count {
	c := a.heard(ctx, port)
	if c.err == nil && port != "" && sleep.For(ctx, countsWithin) == nil {
		c = a.heard(ctx, port)
	}
	return c
}

// countsWithin is how long a driver may take to read a representor's counters in the background.
const countsWithin = 50 * time.Millisecond

type count struct {
	frames uint64
	err    error
}

// waitFrame waits until more frames have come in than before, for so long at most, and reports whether they have. That a representor is
// gone is for the next Steps to say.
func (a *Actuator) waitFrame(ctx context.Context, port string, before count, most time.Duration) bool {
	if port == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		now := a.heard(ctx, port)
		switch {
		case now.err == nil && before.err == nil && now.frames > before.frames:
			return true
		case errors.Is(now.err, model.ErrGone):
			return false
		case before.err != nil:
			before = now
		}
		select {
		case <-ctx.Done():
			return false
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
