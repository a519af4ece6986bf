package kernel

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"sluice/internal/host/bpf"
	"sluice/internal/host/bridge"
	"sluice/internal/host/counters"
	"sluice/internal/host/htb"
	"sluice/internal/host/mirror"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/host/tap"
	"sluice/internal/host/vdpa"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// Options configure a Host. The zero value means the running kernel.
type Options struct {
	SysFS  string       // default "/sys"
	ProcFS string       // default "/proc"
	BPFFS  string       // where the BPF file system is mounted; default "/sys/fs/bpf"
	Owner  string       // the directory there for this program's pins; default "sluice-" and the inode number of the network namespace
	VDPA   string       // the directory of links to vDPA devices; default model.VDPADir
	Logger *slog.Logger // default: discards

	// Lease is how long the leased rates of a tap apply after UpdateTap; default model.LimitLease.
	Lease time.Duration

	// StickyPins creates FDB entries that no frame can move; see PinFDB.
	StickyPins bool
}

// Host is the kernel of this machine, seen from the network namespace of the process. Its methods are safe for concurrent use.
type Host struct {
	kernel *sysif.Kernel
	*netdev.Devices
	*bridge.Bridges
	*vf.Functions
	*vdpa.Bus
	*counters.Counting
	*mirror.Mirroring
	*tap.Taps
	*htb.Trees
}

// New opens the netlink sockets. Close releases them.
func New(o Options) (*Host, error) {
	mirrors, err := bpf.NewPins(o.BPFFS, o.Owner, "mirrors")
	if err != nil {
		return nil, err
	}
	policies, err := bpf.NewPins(o.BPFFS, o.Owner, "taps")
	if err != nil {
		return nil, err
	}
	k, err := sysif.Open(o.SysFS, o.ProcFS, o.Logger)
	if err != nil {
		return nil, err
	}
	links, err := netdev.New(k)
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	h := &Host{
		kernel: k, Devices: links, Bridges: bridge.New(k, links, o.StickyPins), Bus: vdpa.New(k, o.VDPA), Counting: counters.New(k),
		Trees: htb.New(k, links),
	}
	h.Functions = vf.New(k, h.Bridges)
	h.Mirroring = mirror.New(k, links, h.Bridges, mirrors)
	h.Taps = tap.New(k, links, h.Bridges, policies, cmp.Or(o.Lease, model.LimitLease))
	return h, nil
}

// Close closes the sockets. Pinned mirrors and PF filters stay and are found at the next start, so a caller must end its moves
// first.
func (h *Host) Close() error {
	return errors.Join(h.Mirroring.Close(), h.Taps.Close(), h.kernel.Close(), h.Devices.Close())
}
