package ovs

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/host/mirror"
	"sluice/internal/model"
)

// Check implements uplink.Writer.
func (s *Switch) Check(ctx context.Context, p *model.PathStep) error {
	tap, err := s.kernel.Link(ctx, p.Tap)
	switch {
	case errors.Is(err, model.ErrGone):
		return fmt.Errorf("tap %s is not there", p.Tap)
	case err != nil:
		return err
	case !tap.Up:
		return fmt.Errorf("tap %s is down: ip link set %s up", p.Tap, p.Tap)
	case !tap.Carrier:
		return fmt.Errorf("tap %s has no carrier: the domain does not hold it open, or its link is set down", p.Tap)
	}
	t, dberr := s.db.state()
	at, known := t.ports[p.Tap]
	switch {
	case !known && dberr != nil:
		return fmt.Errorf("the database of Open vSwitch does not answer: %w", dberr)
	case !known:
		return fmt.Errorf("tap %s is in no bridge of Open vSwitch: ovs-vsctl add-port %s %s", p.Tap, p.Network, p.Tap)
	case at.bridge.Name != p.Network:
		return fmt.Errorf("tap %s is in %s, not in %s", p.Tap, at.bridge.Name, p.Network)
	case trunk(&at):
		return fmt.Errorf("%w: tap %s is a trunk port, and a VF carries one VLAN: make it an access port, or forbid VFs to this VM",
			model.ErrPermanent, p.Tap)
	}
	return nil
}

// ToBoth implements uplink.Writer. An entry of the switch is fixed to the tap first: one that it learned while the guest was on its VF
// would send the frames past the tap's program.
func (s *Switch) ToBoth(ctx context.Context, p *model.PathStep) (note string, err error) {
	if err := s.toTap(ctx, p); err != nil {
		note = err.Error()
	}
	return note, s.kernel.Steer(ctx, path(p, mirror.Both))
}

// ToVF implements uplink.Writer.
func (s *Switch) ToVF(ctx context.Context, p *model.PathStep) error {
	now, err := s.mode(ctx, p)
	if err != nil {
		return err
	}
	_ = s.toTap(ctx, p) // Routes tells if it is missing
	to := mirror.VFAlone
	if now == mirror.Both || now == mirror.OpenVF {
		to = mirror.OpenVF
	}
	return s.kernel.Steer(ctx, path(p, to))
}

// ToTap implements uplink.Writer. If the tap is gone, it only ensures that the frames no longer go to the PF.
func (s *Switch) ToTap(ctx context.Context, p *model.PathStep) error {
	if s.gone(ctx, p.Tap) {
		return s.kernel.CloseDualPath(ctx, path(p, mirror.Both))
	}
	now, err := s.mode(ctx, p)
	if err != nil {
		return err
	}
	_ = s.toTap(ctx, p) // without it the switch learns where the guest is as soon as it sends
	switch now {
	case mirror.OpenVF:
		return s.kernel.Steer(ctx, path(p, mirror.Both))
	case mirror.VFAlone:
		return s.kernel.CloseDualPath(ctx, path(p, mirror.Both))
	}
	return nil
}

// ToOne implements uplink.Writer.
func (s *Switch) ToOne(ctx context.Context, p *model.PathStep) error {
	now, err := s.mode(ctx, p)
	switch {
	case err != nil:
		return err
	case now == mirror.Both || now != "" && s.gone(ctx, p.Tap):
		return s.kernel.CloseDualPath(ctx, path(p, mirror.Both))
	case now == mirror.OpenVF:
		return s.kernel.Steer(ctx, path(p, mirror.VFAlone))
	}
	return nil
}

// Back implements uplink.Writer. On virtio, the switch always sends frames to the tap.
func (s *Switch) Back(ctx context.Context, p *model.PathStep) error { return s.ToTap(ctx, p) }

func path(p *model.PathStep, m mirror.Mode) mirror.DualPath {
	return mirror.DualPath{MAC: p.MAC, Tap: p.Tap, PF: p.PF, VLAN: p.VLAN, Mode: m}
}

// mode returns what the tap's program does with frames for the MAC, "" if there is none.
func (s *Switch) mode(ctx context.Context, p *model.PathStep) (mirror.Mode, error) {
	all, err := s.kernel.Mirrors(ctx)
	for _, m := range all {
		if m.Tap == p.Tap && m.MAC == p.MAC && m.Mode != mirror.Copy {
			return m.Mode, err
		}
	}
	return "", err
}
