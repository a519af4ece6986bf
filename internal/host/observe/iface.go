package observe

import (
	"context"

	"sluice/internal/host/guest"
	"sluice/internal/host/kernel"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// Kernel is everything that a Source reads from the kernel.
type Kernel interface {
	Links(ctx context.Context) ([]netdev.Link, error)
	Watch(ctx context.Context) (<-chan struct{}, error) // changes of links and forwarding entries
	PFs(ctx context.Context) ([]vf.PFInfo, error)
	VFCounters(ctx context.Context, pf string) (map[int]netdev.Counters, error)
	DriverOpen(ctx context.Context, addr model.PCIAddress) (model.Tri, error)
	// PortCounters returns the counters of everything that crossed the PF's port, for the PF itself and its VFs.
	PortCounters(ctx context.Context, pf string) (netdev.Counters, error)
	// Interrupts returns the number of interrupts that the VF has raised on the host.
	Interrupts(ctx context.Context, addr model.PCIAddress) (uint64, error)
}

// Uplinks tells how taps, PFs and VFs are connected and where frames go.
type Uplinks interface {
	Find(links *uplink.Links, pf *model.PF)
	Tap(links *uplink.Links, tap *netdev.Link) (uplink.Port, bool)
	Routes(ctx context.Context) ([]model.Route, error)
	Watch(ctx context.Context) ([]<-chan struct{}, error)
}

// Domains reads the virtual machines. Its method Domains must be very cheap because every Snapshot calls it; Problems is called only with
// a new inventory.
type Domains interface {
	Domains(ctx context.Context) ([]libvirt.Domain, error)
	Unread() []model.VMID // those that run and that Domains lacks
	Stats(ctx context.Context) (map[model.VMID]libvirt.Stat, error)
	Problems() []model.Problem
}

// Guests asks guests for their own counters. The answers are untrusted.
type Guests interface {
	Interfaces(ctx context.Context, vm model.VMID) ([]guest.Counters, error)
}

var (
	_ Kernel  = (*kernel.Host)(nil)
	_ Uplinks = uplink.Set(nil)
	_ Domains = (*libvirt.Conn)(nil)
	_ Guests  = (*guest.Client)(nil)
)
