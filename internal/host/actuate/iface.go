package actuate

import (
	"context"

	"sluice/internal/host/guest"
	"sluice/internal/host/kernel"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
	"sluice/internal/host/tap"
	"sluice/internal/host/uplink"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// Kernel is everything that an Actuator uses of the kernel.
type Kernel interface {
	BindVFIO(ctx context.Context, addr model.PCIAddress) error
	SetVF(ctx context.Context, pf string, idx int, s vf.Settings) (note string, err error)
	SetVFRates(ctx context.Context, pf string, idx int, want vf.Rates) (vf.Rates, error)
	SetVFMAC(ctx context.Context, pf string, idx int, mac model.MAC) error
	ClearVF(ctx context.Context, pf string, idx int) (note string, err error)
	DriverOpen(ctx context.Context, addr model.PCIAddress) (model.Tri, error)
	WaitDriver(ctx context.Context, addr model.PCIAddress, open bool) error
	Link(ctx context.Context, name string) (netdev.Link, error)
	UpdateTap(ctx context.Context, tap string, edit func(*tap.Policy)) (tap.Policy, error)
	RemoveTap(ctx context.Context, tap string) error // its limits
	RemoveSwitchPort(ctx context.Context, tap string) error
}

// Uplinks finds the Writer that changes where frames go.
type Uplinks interface {
	Writer(p *model.PathStep) (uplink.Writer, error)
}

// Domains changes virtual machines. Its method Domains must be cheap: it is called for most Steps, and repeatedly while waiting.
type Domains interface {
	Domains(ctx context.Context) ([]libvirt.Domain, error)
	Attach(ctx context.Context, vm model.VMID, spec libvirt.HostdevSpec) error
	Detach(ctx context.Context, vm model.VMID, alias string) error
	WaitGone(ctx context.Context, vm model.VMID, alias string) error
}

// Guests asks guests through their agents.
type Guests interface {
	WithMAC(ctx context.Context, vm model.VMID, mac model.MAC) (int, error)
}

var (
	_ Guests  = (*guest.Client)(nil)
	_ Kernel  = (*kernel.Host)(nil)
	_ Uplinks = uplink.Set(nil)
	_ Domains = (*libvirt.Conn)(nil)
)
