package actuate

import (
	"context"

	"sluice/internal/host/kernel"
	"sluice/internal/host/libvirt"
	"sluice/internal/model"
)

// VFs changes virtual functions.
type VFs interface {
	BindVFIO(ctx context.Context, addr model.PCIAddress) error
	SetVF(ctx context.Context, pf string, idx int, s kernel.VFSettings) (note string, err error)
	SetVFRates(ctx context.Context, pf string, idx int, want kernel.VFRates) (kernel.VFRates, error)
	SetVFMAC(ctx context.Context, pf string, idx int, mac model.MAC) error
	ClearVF(ctx context.Context, pf string, idx int) (note string, err error)
}

// Bridge changes where the bridge sends a MAC's frames.
type Bridge interface {
	PinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error
	UnpinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error
	PreparePort(ctx context.Context, port string) error
	Announce(ctx context.Context, mac model.MAC, vlan int, via string) error
}

// Windows makes both paths receive for a while, and PFs filter for MACs.
type Windows interface {
	OpenWindow(ctx context.Context, w kernel.Window) (note string, err error)
	CloseWindow(ctx context.Context, w kernel.Window) error
	AddSelf(ctx context.Context, pf string, mac model.MAC) error
	DelSelf(ctx context.Context, pf string, mac model.MAC) error
	RemoveTap(ctx context.Context, tap string) error
	RemoveSwitchPort(ctx context.Context, tap string) error
}

// Observer sees what matters before and during a change.
type Observer interface {
	Link(ctx context.Context, name string) (kernel.Link, error)
	Links(ctx context.Context) ([]kernel.Link, error)
	DriverOpen(ctx context.Context, addr model.PCIAddress) (model.Tri, error)
	WaitDriver(ctx context.Context, addr model.PCIAddress, open bool) error
}

// Kernel is all that an Actuator uses of the kernel.
type Kernel interface {
	VFs
	Bridge
	Windows
	Observer
}

// Domains changes virtual machines. Domains must be cheap: it is called for most Steps,
// and again and again while waiting.
type Domains interface {
	Domains(ctx context.Context) ([]libvirt.Domain, error)
	Attach(ctx context.Context, vm model.VMID, spec libvirt.HostdevSpec) error
	Detach(ctx context.Context, vm model.VMID, alias string) error
	WaitGone(ctx context.Context, vm model.VMID, alias string) error
}

var (
	_ Kernel  = (*kernel.Host)(nil)
	_ Domains = (*libvirt.Conn)(nil)
)
