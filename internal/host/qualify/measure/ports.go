package measure

import (
	"context"
	"time"

	"sluice/internal/host/kernel/frames"
	"sluice/internal/host/netdev"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// Kernel is what is asked and changed of the host; kernel.Host has it.
type Kernel interface {
	Looker
	Drivers
	Mover
	Settings
	Filters
}

// Looker shows PFs and VFs.
type Looker interface {
	PFs(ctx context.Context) ([]vf.PFInfo, error)
	Hardware(ctx context.Context, pf string) (vf.Hardware, error)
	VFCounters(ctx context.Context, pf string) (map[int]netdev.Counters, error)
	DriverOpen(ctx context.Context, addr model.PCIAddress) (model.Tri, error)
}

// Drivers changes who drives a VF.
type Drivers interface {
	BindVFIO(ctx context.Context, addr model.PCIAddress) error
	BindHost(ctx context.Context, addr model.PCIAddress, driver string) error
	Unbind(ctx context.Context, addr model.PCIAddress) error
	DriverOverride(addr model.PCIAddress) (string, error)
	SetDriverOverride(ctx context.Context, addr model.PCIAddress, driver string) error
}

// Mover moves interfaces to other network namespaces.
type Mover interface {
	MoveLink(ctx context.Context, name, as string, ns int) error
}

// Settings changes what the PF's driver holds of a VF.
type Settings interface {
	SetVF(ctx context.Context, pf string, idx int, s vf.Settings) (string, error)
	SetVFMAC(ctx context.Context, pf string, idx int, mac model.MAC) error
	ClearVF(ctx context.Context, pf string, idx int) (string, error)
	TryVFRates(ctx context.Context, pf string, idx int, want vf.Rates) (vf.Rates, error)
}

// Filters are the PF's own.
type Filters interface {
	Selfs(ctx context.Context, pf string) ([]model.MAC, error)
	AddSelf(ctx context.Context, pf string, mac model.MAC) error
	DelSelf(ctx context.Context, pf string, mac model.MAC) error
}

// Domains says which PCI devices domains have, with the domain's name.
type Domains func(ctx context.Context) (map[model.PCIAddress]string, error)

// Space is the network namespace that VFs' interfaces are in meanwhile. An interface that the Space does not have is the
// host's.
type Space interface {
	FD() int
	Has(name string) bool
	Up(ctx context.Context, name string) error
	// Pass sends n frames out of one interface and says how many of them came in at another.
	Pass(ctx context.Context, from, to string, f frames.Frame, n int) (got int, err error)
	// Flood sends for some time as fast as it can, and says what came in a second.
	Flood(ctx context.Context, from, to string, f frames.Frame, d time.Duration) (perSecond float64, err error)
	Close() error
}
