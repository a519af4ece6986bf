package counters

import (
	"context"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/host/vf"
)

// Reader reads only counters, many times a second. It has its own sockets, is independent of the locks and speed of Links
// and PFs, and does not allocate once its buffers have grown. Its methods keep their deadline like all others; a call that the
// kernel does not finish delays later ones. They are safe for concurrent use.
type Reader struct {
	turn   chan struct{} // held by the call that may use the fields below
	ask    chan counterAsk
	done   chan error
	closed chan struct{}
	once   sync.Once

	// Used by the worker while it reads.
	sys     sysif.Tree
	netlink *rtnl.Reader
	ioctl   int
	stats   *rtnl.Request
	pfs     map[pfKey]*pfCounters
	links   []netdev.LinkStats
	vfs     []vf.Counters
	port    netdev.Counters

	onLink, onVFs func(rtnl.Message) // created once
}

// counterAsk is a request to the worker.
type counterAsk struct {
	read func(*Reader, pfKey) error
	pf   pfKey
}

// pfKey identifies a PF by name and index: a new interface of the same name is another PF.
type pfKey struct {
	name  string
	index int
}

// pfCounters caches what reading the counters of a PF needs.
type pfCounters struct {
	vfs  *rtnl.Request
	port *portReader // nil: not opened yet
}

// maxPFs bounds the cache, since PFs may come and go.
const maxPFs = 64

// NewCounterReader opens the sockets. Close releases them.
func (h *Counting) NewCounterReader() (*Reader, error) {
	nl, err := rtnl.NewReader()
	if err != nil {
		return nil, err
	}
	fd, err := sysif.EthtoolSocket()
	if err != nil {
		_ = nl.Close()
		return nil, err
	}
	r := &Reader{
		turn: make(chan struct{}, 1), ask: make(chan counterAsk), done: make(chan error, 1), closed: make(chan struct{}),
		sys: h.k.Sys, netlink: nl, ioctl: fd, stats: netdev.StatsRequest(), pfs: map[pfKey]*pfCounters{},
	}
	r.onLink = func(m rtnl.Message) {
		if s, ok := netdev.DecodeStats(m); ok {
			r.links = append(r.links, s)
		}
	}
	r.onVFs = func(m rtnl.Message) { r.vfs = vf.AppendVFCounters(r.vfs, m) }
	go r.work()
	return r, nil
}

// Close releases the sockets after the current call, if any.
func (r *Reader) Close() error {
	r.once.Do(func() { close(r.closed) })
	return nil
}

// Links appends the counters of all interfaces to buf, which may be nil, in the kernel's order. Interfaces that appear or vanish
// meanwhile may be missing.
func (r *Reader) Links(ctx context.Context, buf []netdev.LinkStats) ([]netdev.LinkStats, error) {
	err := r.call(ctx, counterAsk{read: (*Reader).readLinks})
	if err != nil {
		return buf, sysif.Fail("read counters of", "all links", err)
	}
	defer r.release()
	return append(buf, r.links...), nil
}

// VFs appends the counters of a PF's VFs to buf, which may be nil. They are valid only if Caps.VFCounters is Yes: drivers without
// counters report zeros.
func (r *Reader) VFs(ctx context.Context, pf string, index int, buf []vf.Counters) ([]vf.Counters, error) {
	err := r.call(ctx, counterAsk{(*Reader).readVFs, pfKey{pf, index}})
	if err != nil {
		return buf, sysif.Fail("read VF counters of", "PF "+pf, err)
	}
	defer r.release()
	return append(buf, r.vfs...), nil
}

// Port returns the same as Host.PortCounters.
func (r *Reader) Port(ctx context.Context, pf string, index int) (netdev.Counters, error) {
	err := r.call(ctx, counterAsk{(*Reader).readPort, pfKey{pf, index}})
	if err != nil {
		return netdev.Counters{}, sysif.Fail("read port counters of", "PF "+pf, err)
	}
	defer r.release()
	return r.port, nil
}

// call makes the worker read something. On success the caller holds the turn, and must release it after taking the answer.
func (r *Reader) call(ctx context.Context, a counterAsk) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case r.turn <- struct{}{}:
	case <-r.closed:
		return os.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case r.ask <- a:
	case <-r.closed:
		r.release()
		return os.ErrClosed
	}
	select {
	case err := <-r.done:
		if err != nil {
			r.release()
		}
		return err
	case <-ctx.Done(): // the turn ends when the kernel returns
		go func() {
			<-r.done //nolint:errcheck // nobody waits for it any more
			r.release()
		}()
		return ctx.Err()
	}
}

func (r *Reader) release() { <-r.turn }

// work serves requests, in its own goroutine so that a stuck kernel blocks nothing else.
func (r *Reader) work() {
	defer unix.Close(r.ioctl)
	defer r.netlink.Close()
	for {
		select {
		case a := <-r.ask:
			r.done <- a.read(r, a.pf)
		case <-r.closed:
			return
		}
	}
}

func (r *Reader) readLinks(pfKey) error {
	r.links = r.links[:0]
	return r.netlink.Dump(r.stats, r.onLink)
}

func (r *Reader) readVFs(pf pfKey) error {
	r.vfs = r.vfs[:0]
	return r.netlink.Get(r.about(pf).vfs, r.onVFs)
}

func (r *Reader) readPort(pf pfKey) (err error) {
	about := r.about(pf)
	if about.port == nil {
		if about.port, err = newPortReader(r.sys, r.ioctl, pf.name); err != nil {
			return err
		}
	}
	if r.port, err = about.port.read(r.ioctl); err != nil {
		about.port = nil // its list of statistics may have changed
	}
	return err
}

func (r *Reader) about(pf pfKey) *pfCounters {
	about := r.pfs[pf]
	if about == nil {
		if len(r.pfs) >= maxPFs {
			clear(r.pfs)
		}
		about = &pfCounters{vfs: netdev.LinkRequest(pf.name, netdev.ExtVF)}
		r.pfs[pf] = about
	}
	return about
}
