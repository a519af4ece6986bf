package actuate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/internal/host/libvirt"
	"sluice/internal/model"
)

// Actuator does Steps. It keeps nothing between them, and may do several at once.
type Actuator struct {
	kernel  Kernel
	steer   Switch
	domains Domains
	log     *slog.Logger
}

// New makes an Actuator. A nil log discards.
func New(k Kernel, d Domains, log *slog.Logger) *Actuator {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Actuator{kernel: k, steer: bridge{k}, domains: d, log: log}
}

// Do makes a Step true, or says why it cannot by ctx's deadline. Errors wrap
// model.ErrPermanent, model.ErrGone (the VM is) or model.ErrGuest where they apply; after
// any other, trying again may help. What could be done without is logged.
func (a *Actuator) Do(ctx context.Context, s model.Step) error {
	err := a.untilConnected(ctx, s)
	if errors.Is(err, model.ErrGone) && s.Subject.VM != "" {
		return a.goneOrNot(ctx, s.Subject.VM, err)
	}
	return err
}

// goneOrNot says whether it is the VM that has gone. Only libvirt's word that it has
// counts: a VM given up for gone would lose what it still uses.
func (a *Actuator) goneOrNot(ctx context.Context, vm model.VMID, err error) error {
	switch _, looked := a.domain(ctx, vm); {
	case looked == nil: // a device of it has, which is another matter
		return fmt.Errorf("%w: %v", model.ErrPermanent, err) //nolint:errorlint // it must not say any more that the VM is
	case errors.Is(looked, model.ErrGone):
		return err
	default:
		return fmt.Errorf("%v; whether the VM is still there cannot be seen: %w", err, looked) //nolint:errorlint // nor here
	}
}

// reconnect is how often a Step is tried again while libvirtd is away.
const reconnect = 500 * time.Millisecond

// untilConnected does the Step, again and again while libvirtd cannot be reached: it is
// being restarted, say, which takes less than most deadlines, and giving a move up half way
// is worse than a wait.
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
	case model.StepCheckVirtio:
		return a.checkVirtio(ctx, s)
	case model.StepBindVFIO:
		return a.bindVFIO(ctx, s)
	case model.StepSetVF:
		return a.setVF(ctx, s)
	case model.StepOpenDualPath:
		return a.openWindow(ctx, s)
	case model.StepSetMAC:
		return a.setMAC(ctx, s)
	case model.StepAttach:
		return a.attach(ctx, s)
	case model.StepWaitGuest:
		return a.waitGuest(ctx, s)
	case model.StepRouteToVF:
		return a.steer.ToVF(ctx, &s.Path)
	case model.StepCloseDualPath:
		return a.steer.ToOne(ctx, &s.Path)
	case model.StepAnnounce:
		return a.announce(ctx, s)
	case model.StepDetach:
		return a.domains.Detach(ctx, s.Subject.VM, model.VFAlias(s.Device.MAC))
	case model.StepWaitGone:
		return a.waitGone(ctx, s)
	case model.StepRouteToTap:
		return a.steer.ToTap(ctx, &s.Path)
	case model.StepClearVF:
		return a.clearVF(ctx, s)
	case model.StepFollowGuest:
		return a.followGuest(ctx, s)
	case model.StepAddSelf:
		return a.addSelf(ctx, s)
	case model.StepDelSelf:
		return a.kernel.DelSelf(ctx, s.Path.PF, s.Path.MAC)
	case model.StepClearPort:
		return a.kernel.RemoveSwitchPort(ctx, s.Path.Tap)
	case model.StepClearTap:
		return a.kernel.RemoveTap(ctx, s.Path.Tap)
	}
	return fmt.Errorf("%w: no such kind of step", model.ErrPermanent)
}

// note logs what could not be had and can be done without.
func (a *Actuator) note(s model.Step, text string) {
	if text != "" {
		a.log.Warn(text, "step", string(s.Kind), "vm", s.Subject.VMName, "vf", s.VFID().String(), "pf", s.Path.PF, "mac", cmp.Or(s.Path.MAC, s.VF.MAC).String())
	}
}
