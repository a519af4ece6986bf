package actuate

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// side is the path on which a guest listens.
type side int

const (
	onTap   side = iota // it does not have the VF
	onVF                // its driver has the VF open
	perhaps             // it has the VF, and may start to listen on it at any time
)

var errChangedSides = errors.New("the guest changed to its other path meanwhile")

// followGuest directs a guest's frames to the path on which it listens now, and only then ends the dual path: until then, and after any
// failure, both paths receive. They also keep receiving while the guest has a VF that it does not use.
func (a *Actuator) followGuest(ctx context.Context, up uplink.Writer, s model.Step) error {
	if _, err := a.domain(ctx, s.Subject.VM); errors.Is(err, model.ErrGone) {
		return up.ToOne(ctx, &s.Path)
	} else if err != nil {
		return err
	}
	before := a.heardSoFar(ctx, s.Device.Port)
	at, err := a.listens(ctx, s)
	// Until its VF has a link it sends through its virtio NIC, as after a plug. If it sends through its VF, its port need not leave there.
	if err == nil && at == onVF && s.Device.Port != "" && !a.waitFrame(ctx, s.Device.Port, before, countsWithin) {
		if err = a.feedBoth(ctx, up, s); err == nil {
			a.waitFrame(ctx, s.Device.Port, before, model.SilentFor)
			at, err = a.listens(ctx, s)
		}
	}
	if err != nil {
		return err
	}
	switch at {
	case onVF:
		err = errors.Join(up.ToVF(ctx, &s.Path), up.NotFromNIC(ctx, &s.Path))
	case onTap:
		err = a.backToTap(ctx, up, s)
	case perhaps:
		return a.feedBoth(ctx, up, s)
	}
	if err != nil {
		return err
	}
	now, err := a.listens(ctx, s)
	if err == nil && now != at {
		err = errChangedSides
	}
	if err != nil {
		return err
	}
	return up.ToOne(ctx, &s.Path)
}

// listens finds the path on which the guest listens. A VF held by another VM says nothing about it.
func (a *Actuator) listens(ctx context.Context, s model.Step) (side, error) {
	if s.Device.VF == model.NoVF {
		return onTap, nil
	}
	d, h, err := a.holder(ctx, s.Device.Address)
	if err != nil {
		return perhaps, err
	}
	if h == nil || d.ID != s.Subject.VM || h.Alias != model.PassthroughAlias(s.Device.MAC) {
		return onTap, nil
	}
	// If the open state cannot be read, the guest may be on either path.
	if open, err := a.kernel.DriverOpen(ctx, s.Device.Address); err == nil && open == model.Yes {
		return onVF, nil
	}
	return perhaps, nil
}

// feedBoth makes both paths receive. If the switch can have no dual path, the tap does; one that takes in the
// guest's frames at one port only fails instead, so that a guest that uses its VF is not left without.
func (a *Actuator) feedBoth(ctx context.Context, up uplink.Writer, s model.Step) error {
	if err := a.fromNIC(ctx, up, s); err != nil {
		return err
	}
	if err := a.toBoth(ctx, up, s); err != nil {
		return err
	}
	return up.ToTap(ctx, &s.Path)
}

// backToTap restores the host's side to its state while the guest was on virtio.
func (a *Actuator) backToTap(ctx context.Context, up uplink.Writer, s model.Step) error {
	if s.Path.PF != "" {
		if err := a.fromNIC(ctx, up, s); err != nil {
			return err
		}
	}
	return up.Back(ctx, &s.Path)
}

// unshared fails if another NIC has the MAC in the same network: a VF with that MAC, or a bridge entry, would cut that NIC off.
func (a *Actuator) unshared(ctx context.Context, s model.Step) error {
	all, err := a.domains.Domains(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		d := &all[i]
		for k := range d.NICs {
			n := &d.NICs[k]
			other := d.ID != s.Subject.VM || n.Alias != s.Device.NIC
			if other && n.MAC == s.Path.MAC && (n.Network == s.Path.Network || n.Network == "") {
				return fmt.Errorf("%w: NIC %s of %s has MAC %s too: give each NIC in %s its own", model.ErrPermanent, n.Alias, d.Name, n.MAC,
					s.Path.Network)
			}
		}
	}
	return nil
}
