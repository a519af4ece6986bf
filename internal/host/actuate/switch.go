package actuate

import (
	"context"
	"errors"

	"sluice/internal/host/kernel"
	"sluice/internal/model"
)

// Switch says where the frames for one MAC go that reach the host's switch. Each method
// may find its work done already, and whatever went away meanwhile is no reason to fail
// for ToTap and ToOne, which come last in every undo.
type Switch interface {
	// ToBoth sends them to the tap and to the VF. What it could not have is in note.
	ToBoth(ctx context.Context, p *model.PathStep) (note string, err error)
	// ToOne ends that; they go where the last of the other methods sent them.
	ToOne(ctx context.Context, p *model.PathStep) error
	ToTap(ctx context.Context, p *model.PathStep) error
	ToVF(ctx context.Context, p *model.PathStep) error
	// Back sends them where they went while the guest was on virtio, which need not be its
	// tap alone.
	Back(ctx context.Context, p *model.PathStep) error
}

// bridge is the Linux bridge: an entry that names the port, and a mirror for both.
type bridge struct {
	kernel interface {
		Bridge
		Windows
		Link(ctx context.Context, name string) (kernel.Link, error)
	}
}

func window(p *model.PathStep) kernel.Window {
	return kernel.Window{MAC: p.MAC, Tap: p.Tap, PF: p.PF, Port: p.Uplink, VLAN: p.VLAN}
}

// ToBoth implements Switch. The bridge must not learn from the PF's port, or the copies
// that come back through it teach it the wrong side.
func (b bridge) ToBoth(ctx context.Context, p *model.PathStep) (note string, err error) {
	if err := b.kernel.PreparePort(ctx, p.Port()); err != nil {
		return "", err
	}
	return b.kernel.OpenWindow(ctx, window(p))
}

// ToOne implements Switch. After a VM that is gone it also removes the entry that may still
// send the VM's frames to the PF.
func (b bridge) ToOne(ctx context.Context, p *model.PathStep) error {
	err := b.kernel.CloseWindow(ctx, window(p))
	if err != nil && !errors.Is(err, model.ErrGone) {
		return err
	}
	if b.tapGone(ctx, p) {
		return b.kernel.UnpinFDB(ctx, p.MAC, p.VLAN, p.Port())
	}
	return nil
}

// ToTap implements Switch. Where the tap is gone it only sees to it that the frames no
// longer go to the PF.
func (b bridge) ToTap(ctx context.Context, p *model.PathStep) error {
	err := b.kernel.PinFDB(ctx, p.MAC, p.VLAN, p.Tap)
	if err != nil && b.tapGone(ctx, p) {
		return b.kernel.UnpinFDB(ctx, p.MAC, p.VLAN, p.Port())
	}
	return err
}

// ToVF implements Switch: the VF's filter takes them from the PF's port.
func (b bridge) ToVF(ctx context.Context, p *model.PathStep) error {
	return b.kernel.PinFDB(ctx, p.MAC, p.VLAN, p.Port())
}

// Back implements Switch: the entry goes to the port it had, or away if there was none.
func (b bridge) Back(ctx context.Context, p *model.PathStep) error {
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
	if errors.Is(err, model.ErrGone) { // the port is
		return b.ToTap(ctx, p)
	}
	return err
}

// tapGone says whether there certainly is no tap.
func (b bridge) tapGone(ctx context.Context, p *model.PathStep) bool {
	if p.Tap == "" {
		return true
	}
	_, err := b.kernel.Link(ctx, p.Tap)
	return errors.Is(err, model.ErrGone)
}
