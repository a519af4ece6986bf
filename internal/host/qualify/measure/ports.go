package measure

import (
	"context"
	"time"

	"sluice/internal/host/kernel/frames"
	"sluice/internal/host/netdev"
	"sluice/internal/host/tap"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// Kernel is what a measurement reads and changes on the host; kernel.Host implements it.
type Kernel interface {
	// The state of PFs and VFs.
	PFs(ctx context.Context) ([]vf.PFInfo, error)
	Hardware(ctx context.Context, pf string) (vf.Hardware, error)
	VFCounters(ctx context.Context, pf string) (map[int]netdev.Counters, error)
	DriverOpen(ctx context.Context, addr model.PCIAddress) (model.Tri, error)

	// The driver of a VF, and the network namespace of an interface.
	BindVFIO(ctx context.Context, addr model.PCIAddress) error
	BindHost(ctx context.Context, addr model.PCIAddress, driver string) error
	Unbind(ctx context.Context, addr model.PCIAddress) error
	DriverOverride(addr model.PCIAddress) (string, error)
	SetDriverOverride(ctx context.Context, addr model.PCIAddress, driver string) error
	MoveLink(ctx context.Context, name, as string, ns int) error

	// The settings that the PF's driver keeps for a VF.
	SetVF(ctx context.Context, pf string, idx int, s vf.Settings) (string, error)
	SetVFMAC(ctx context.Context, pf string, idx int, mac model.MAC) error
	ClearVF(ctx context.Context, pf string, idx int) (string, error)
	TryVFRates(ctx context.Context, pf string, idx int, want vf.Rates) (vf.Rates, error)

	// The PF's own unicast filters.
	Selfs(ctx context.Context, pf string) ([]model.MAC, error)
	AddSelf(ctx context.Context, pf string, mac model.MAC) error
	DelSelf(ctx context.Context, pf string, mac model.MAC) error

	// The representors of VFs, also as ports of a Linux bridge.
	Link(ctx context.Context, name string) (netdev.Link, error)
	SetUp(ctx context.Context, name string) error
	Join(ctx context.Context, dev, bridge string) error
	Leave(ctx context.Context, dev string, down bool) error
	PinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error
	UnpinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error
	UpdateTap(ctx context.Context, tap string, edit func(*tap.Policy)) (tap.Policy, error)
	RemoveTap(ctx context.Context, tap string) error
}

// Domains returns the PCI devices that domains have, with the domains' names.
type Domains func(ctx context.Context) (map[model.PCIAddress]string, error)

// Space is the network namespace that holds the VFs' interfaces during a measurement. Interfaces that are not in the Space are the host's.
type Space interface {
	FD() int
	Has(name string) bool
	Up(ctx context.Context, name string) error
	// Pass sends n frames out of one interface and returns how many of them arrive at another.
	Pass(ctx context.Context, from, to string, f frames.Frame, n int) (got int, err error)
	// Flood sends as fast as possible for d, and returns the frames received per second.
	Flood(ctx context.Context, from, to string, f frames.Frame, d time.Duration) (perSecond float64, err error)
	Close() error
}
