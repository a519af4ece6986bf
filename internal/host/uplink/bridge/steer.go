package bridge

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/host/mirror"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// Check implements uplink.Writer.
func (b *Bridge) Check(ctx context.Context, p *model.PathStep) error {
	tap, err := b.kernel.Link(ctx, p.Tap)
	switch {
	case errors.Is(err, model.ErrGone):
		return fmt.Errorf("tap %s is not there", p.Tap)
	case err != nil:
		return err
	case !tap.Up:
		return fmt.Errorf("tap %s is down: ip link set %s up", p.Tap, p.Tap)
	case !tap.Carrier:
		return fmt.Errorf("tap %s has no carrier: the domain does not hold it open, or its link is set down", p.Tap)
	case tap.Master == 0:
		return fmt.Errorf("tap %s is in no bridge: ip link set %s master %s", p.Tap, p.Tap, p.Network)
	}
	list, err := b.kernel.Links(ctx)
	if err != nil {
		return err
	}
	var links uplink.Links
	links.Index(list)
	switch br := links.Master(&tap); {
	case br == nil:
		return fmt.Errorf("tap %s is a port of link %d, which is not there", p.Tap, tap.Master)
	case !br.Up:
		return fmt.Errorf("%s, which tap %s is a port of, is down", br.Name, p.Tap)
	case br.Kind != kind || br.Name != p.Network:
		return fmt.Errorf("tap %s is in %s (%s), not in bridge %s", p.Tap, br.Name, br.Kind, p.Network)
	}
	return nil
}

func dualPath(p *model.PathStep) mirror.DualPath {
	d := mirror.DualPath{MAC: p.MAC, Tap: p.Tap, PF: p.PF, Port: p.Uplink, VLAN: p.VLAN, Representor: p.Representor}
	if p.Representor {
		d.VLAN = 0 // its port of the bridge adds and removes the tag
	}
	return d
}

// prepare makes the port that leads to the VF ready: a representor becomes a port of the tap's bridge, and stays there.
func (b *Bridge) prepare(ctx context.Context, p *model.PathStep) error {
	if p.Representor {
		if p.Uplink == "" {
			return fmt.Errorf("%w: the VF has no representor in this network namespace: devlink port show", model.ErrPermanent)
		}
		return b.kernel.JoinAs(ctx, p.Port(), p.Tap)
	}
	return b.kernel.PreparePort(ctx, p.Port())
}

// ToBoth implements uplink.Writer. The bridge must not learn from the PF's port, since copies that return through it would make it learn
// the wrong port.
func (b *Bridge) ToBoth(ctx context.Context, p *model.PathStep) (note string, err error) {
	if err := b.prepare(ctx, p); err != nil {
		return "", err
	}
	return b.kernel.OpenDualPath(ctx, dualPath(p))
}

// ToOne implements uplink.Writer. If the VM is gone, it also removes the entry that may still send the VM's frames to the PF.
func (b *Bridge) ToOne(ctx context.Context, p *model.PathStep) error {
	err := b.kernel.CloseDualPath(ctx, dualPath(p))
	if err != nil && !errors.Is(err, model.ErrGone) {
		return err
	}
	if b.gone(ctx, p.Tap) {
		return b.kernel.UnpinFDB(ctx, p.MAC, p.VLAN, p.Port())
	}
	return nil
}

// ToTap implements uplink.Writer. If the tap is gone, it only ensures that the frames no longer go to the PF.
func (b *Bridge) ToTap(ctx context.Context, p *model.PathStep) error {
	err := b.kernel.PinFDB(ctx, p.MAC, p.VLAN, p.Tap)
	if err != nil && b.gone(ctx, p.Tap) {
		return b.kernel.UnpinFDB(ctx, p.MAC, p.VLAN, p.Port())
	}
	return err
}

// ToVF implements uplink.Writer. From the PF's port, the NIC's filter for the MAC passes the frames to the VF. A representor that somebody
// took out of the bridge is put back.
func (b *Bridge) ToVF(ctx context.Context, p *model.PathStep) error {
	if p.Representor {
		if err := b.prepare(ctx, p); err != nil {
			return err
		}
	}
	return b.kernel.PinFDB(ctx, p.MAC, p.VLAN, p.Port())
}

// Back implements uplink.Writer. It restores the entry to its former port, or removes it if there was none.
func (b *Bridge) Back(ctx context.Context, p *model.PathStep) error {
	switch p.VirtioRoute {
	case p.Tap:
		return b.ToTap(ctx, p)
	case "":
		err := b.kernel.UnpinFDB(ctx, p.MAC, p.VLAN, p.Tap)
		if p.Port() != "" {
			err = errors.Join(err, b.kernel.UnpinFDB(ctx, p.MAC, p.VLAN, p.Port()))
		}
		return err
	}
	err := b.kernel.PinFDB(ctx, p.MAC, p.VLAN, p.VirtioRoute)
	if errors.Is(err, model.ErrGone) { // the port is gone
		return b.ToTap(ctx, p)
	}
	return err
}
