package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/model"
)

// Options say where the kernel is found. The zero value means the running one.
type Options struct {
	SysFS  string       // default "/sys"
	ProcFS string       // default "/proc"
	BPFFS  string       // where the BPF file system is mounted; default "/sys/fs/bpf"
	Owner  string       // the directory there for what this program pins; default "sluice-" and the number of the network namespace
	VDPA   string       // the directory of links to vDPA devices; default model.VDPADir
	Logger *slog.Logger // default: discards

	// Lease is how long what a tap is allowed holds after UpdateTap; default model.LimitLease.
	Lease time.Duration

	// StickyPins makes bridge entries that no frame can move; see PinFDB.
	StickyPins bool
}

// Host is the kernel of this machine, seen from the network namespace of the process.
// Its methods may be called from several goroutines at once.
type Host struct {
	read    *rtnl.Conn // for questions, so that a slow change does not delay them
	write   *rtnl.Conn
	generic *rtnl.Conn
	devlink *devlink
	ioctl   int // a socket for ethtool ioctls, -1: none
	links   *linkTable
	sys     tree
	proc    tree
	busy    *locks
	mirrors *mirrors
	taps    *taps
	vdpaDir string
	sticky  bool
	log     *slog.Logger
}

// New opens the netlink sockets. Close releases them.
func New(o Options) (*Host, error) {
	h := &Host{
		ioctl:   -1,
		sys:     newTree(o.SysFS, "/sys"),
		proc:    newTree(o.ProcFS, "/proc"),
		busy:    newLocks(),
		vdpaDir: cmp.Or(o.VDPA, model.VDPADir),
		sticky:  o.StickyPins,
		log:     o.Logger,
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	mirrors, err := newPins(o.BPFFS, o.Owner, "mirrors")
	if err != nil {
		return nil, err
	}
	policies, err := newPins(o.BPFFS, o.Owner, "taps")
	if err != nil {
		return nil, err
	}
	h.mirrors = newMirrors(mirrors, h.log)
	h.taps = newTaps(policies, cmp.Or(o.Lease, model.LimitLease), h.log)
	if err := h.dial(); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// NetworkNamespace is the number of the network namespace that this process is in.
func NetworkNamespace() (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return 0, fmt.Errorf("find the network namespace: %w", err)
	}
	return st.Ino, nil
}

// How many requests of a sort go on at once. A driver may take seconds for a change.
const (
	readers = 2
	writers = 4
)

func (h *Host) dial() (err error) {
	if h.read, err = rtnl.Dial(readers); err != nil {
		return err
	}
	if h.write, err = rtnl.Dial(writers); err != nil {
		return err
	}
	if h.generic, err = rtnl.DialGeneric(writers); err != nil {
		return err
	}
	h.devlink = &devlink{h.generic}
	if h.ioctl, err = ethtoolSocket(); err != nil {
		return err
	}
	h.links, err = newLinkTable()
	return err
}

// Close closes the sockets. Open windows and PF filters stay for the next start to find:
// whoever stops ends its moves first.
func (h *Host) Close() error {
	err := errors.Join(h.mirrors.drop(), h.taps.drop())
	for _, c := range []*rtnl.Conn{h.read, h.write, h.generic} {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	if h.ioctl >= 0 {
		err = errors.Join(err, unix.Close(h.ioctl))
	}
	if h.links != nil {
		err = errors.Join(err, h.links.note.Close())
	}
	return err
}
