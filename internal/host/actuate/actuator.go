package actuate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/internal/host/libvirt"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// Actuator executes Steps. It keeps no state between them and is safe for concurrent use.
type Actuator struct {
	// Guests, if set, are asked whether they have the bond that sluice.yaml says. Set it before use.
	Guests Guests

	kernel  Kernel
	uplinks Uplinks
	domains Domains
	log     *slog.Logger
}

// New makes an Actuator. A nil log discards.
func New(k Kernel, up Uplinks, d Domains, log *slog.Logger) *Actuator {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Actuator{kernel: k, uplinks: up, domains: d, log: log}
}

// Do establishes the state that a Step names, or returns an error by ctx's deadline. Errors wrap model.ErrPermanent, model.ErrGone (the VM
// is gone) or model.ErrGuest if they apply; after any other, a retry may help. Tolerable failures are only logged.
func (a *Actuator) Do(ctx context.Context, s model.Step) error {
	err := a.untilConnected(ctx, s)
	if errors.Is(err, model.ErrGone) && s.Subject.VM != "" {
		return a.goneOrNot(ctx, s.Subject.VM, err)
	}
	return err
}

// goneOrNot distinguishes a VM that is gone from one of its devices. Only libvirt's confirmation counts: a VM wrongly taken as gone would
// lose what it still uses.
func (a *Actuator) goneOrNot(ctx context.Context, vm model.VMID, err error) error {
	switch _, failed := a.domain(ctx, vm); {
	case failed == nil: // only one of its devices is gone
		return fmt.Errorf("%w: %v", model.ErrPermanent, err) //nolint:errorlint // it must no longer say that the VM is gone
	case errors.Is(failed, model.ErrGone):
		return err
	default:
		return fmt.Errorf("%v; cannot tell whether the VM still exists: %w", err, failed) //nolint:errorlint // nor here
	}
}

// reconnect is the retry interval of a Step while libvirtd cannot be reached.
const reconnect = 500 * time.Millisecond

// untilConnected executes the Step and retries while libvirtd cannot be reached. A restart of libvirtd takes less than most deadlines, and
// waiting is better than abandoning a move half way.
func (a *Actuator) untilConnected(ctx context.Context, s model.Step) error {
	tick := time.NewTicker(reconnect)
	defer tick.Stop()
	for {
		err := a.do(ctx, s)
		if !errors.Is(err, libvirt.ErrDisconnected) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (a *Actuator) do(ctx context.Context, s model.Step) error {
	switch s.Kind {
	case model.StepBindVFIO, model.StepSetVF, model.StepSetMAC:
		return a.setUp(ctx, s)
	case model.StepAttach:
		return a.attach(ctx, s)
	case model.StepWaitGuest:
		return a.waitGuest(ctx, s)
	case model.StepDetach:
		return a.domains.Detach(ctx, s.Subject.VM, model.PassthroughAlias(s.Device.MAC))
	case model.StepWaitGone:
		// Nothing has to be switched when the guest releases the VF: with the dual path open, the tap already receives its frames.
		return a.domains.WaitGone(ctx, s.Subject.VM, model.PassthroughAlias(s.Device.MAC))
	case model.StepClearVF:
		return a.clearVF(ctx, s)
	case model.StepClearPort:
		return a.kernel.RemoveSwitchPort(ctx, s.Path.Tap)
	case model.StepClearTap:
		return a.kernel.RemoveTap(ctx, s.Path.Tap)
	}
	return a.steer(ctx, s)
}

// steer executes Steps that query or change where frames go.
func (a *Actuator) steer(ctx context.Context, s model.Step) error {
	up, err := a.uplinks.Writer(&s.Path)
	if err != nil {
		return err
	}
	switch s.Kind {
	case model.StepCheckVirtio:
		return a.checkVirtio(ctx, up, s)
	case model.StepOpenDualPath:
		return a.toBoth(ctx, up, s)
	case model.StepCloseDualPath:
		return up.ToOne(ctx, &s.Path)
	case model.StepRouteToVF:
		return up.ToVF(ctx, &s.Path)
	case model.StepRouteToTap:
		return up.ToTap(ctx, &s.Path)
	case model.StepAddSelf:
		return a.fromNIC(ctx, up, s)
	case model.StepDelSelf:
		return up.NotFromNIC(ctx, &s.Path)
	case model.StepFollowGuest:
		return a.followGuest(ctx, up, s)
	case model.StepAnnounce:
		return a.announce(ctx, up, s)
	}
	return fmt.Errorf("%w: no such kind of step", model.ErrPermanent)
}

// toBoth makes both paths receive.
func (a *Actuator) toBoth(ctx context.Context, up uplink.Writer, s model.Step) error {
	note, err := up.ToBoth(ctx, &s.Path)
	a.note(s, note)
	return err
}

// fromNIC makes the NIC forward frames for the MAC.
func (a *Actuator) fromNIC(ctx context.Context, up uplink.Writer, s model.Step) error {
	note, err := up.FromNIC(ctx, &s.Path)
	a.note(s, note)
	return err
}

// announce tells switches where the MAC is. They learn it anyway from the guest's next frame, so a failure is no reason to undo a move.
func (a *Actuator) announce(ctx context.Context, up uplink.Writer, s model.Step) error {
	if err := up.Announce(ctx, &s.Path); err != nil {
		a.note(s, "switches could not be told: "+err.Error())
	}
	return nil
}

// note logs a tolerable failure.
func (a *Actuator) note(s model.Step, text string) {
	if text != "" {
		a.log.Warn(text, "step", string(s.Kind), "vm", s.Subject.VMName, "vf", s.VFID().String(), "pf", s.Path.PF, "mac",
			cmp.Or(s.Path.MAC, s.VF.MAC).String())
	}
}
