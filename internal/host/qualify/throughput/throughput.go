// Package throughput measures what a PF's link carries to a peer, by TCP, for `sluice qualify --peer`. It changes nothing on the host.
package throughput

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/base/sleep"
	"sluice/internal/host/kernel/frames"
	"sluice/internal/host/netdev"
	"sluice/internal/host/qualify"
)

// Kernel counts what leaves a PF; kernel.Host implements it.
type Kernel interface {
	Link(ctx context.Context, name string) (netdev.Link, error)
	VFCounters(ctx context.Context, pf string) (map[int]netdev.Counters, error)
}

// Options say what to measure.
type Options struct {
	PF     string
	Kernel Kernel
	Say    func(text string) // reports progress
	Warm   time.Duration     // how long connections speed up before a round
	During time.Duration     // how long a round takes
}

// Waiting times.
const (
	dialWithin = 5 * time.Second
	seenWithin = 2 * time.Second
)

// flows are the numbers of connections of the rounds. They end with the first round that carries no more than the one before.
var flows = []int{2, 4, 8, 16}

// To sends to a peer, which must read and discard it, as much as the link carries.
func To(ctx context.Context, o *Options, peer netip.AddrPort) qualify.Peer {
	p := qualify.Peer{Address: peer.String()}
	var err error
	if p.VLAN, err = o.path(ctx, peer); err != nil {
		p.Error = err.Error()
		return p
	}
	for _, n := range flows {
		o.Say(fmt.Sprintf("filling the link to %s, %s, with %d connections", p.Address, qualify.TagText(p.VLAN), n))
		r, err := o.round(ctx, peer, n)
		if err != nil {
			p.Error = err.Error()
			break
		}
		if p.Rounds = append(p.Rounds, r); qualify.Level(p.Rounds) {
			break
		}
	}
	return p
}

// path connects once, and returns the tag with which that leaves the PF. It is an error if it leaves elsewhere.
func (o *Options) path(ctx context.Context, peer netip.AddrPort) (vlan int, err error) {
	out, err := frames.NewLeaving(o.PF)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	c, err := dial(ctx, peer)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	vlan, ok, err := out.TCP(ctx, addrPort(c.LocalAddr()), peer, seenWithin)
	if err == nil && !ok {
		err = fmt.Errorf("what the host sends there does not leave through %s itself, or leaves it in a tunnel; name a peer that it reaches "+
			"over %s, its bridge or a VLAN of these (`ip route get %s`)", o.PF, o.PF, peer.Addr())
	}
	return vlan, err
}

func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	return tcp.AddrPort()
}

func dial(ctx context.Context, peer netip.AddrPort) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: dialWithin}
	c, err := d.DialContext(ctx, "tcp", peer.String())
	if err != nil {
		return nil, fmt.Errorf("%w; on the peer, `sluice qualify --receive %s` must be running", err, peer)
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a connection to %s is a %T", peer, c), c.Close())
	}
	_ = tcp.SetLinger(0) // what is queued at the end need not arrive
	return tcp, nil
}

// round sends over n connections at the same time.
func (o *Options) round(ctx context.Context, peer netip.AddrPort, n int) (r qualify.Round, err error) {
	var conns []*net.TCPConn
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for range n {
		c, err := dial(ctx, peer)
		if err != nil {
			return r, err
		}
		conns = append(conns, c)
	}
	ended := make(chan error, n)
	for _, c := range conns {
		wg.Go(func() { ended <- fill(c) })
	}
	wait := func(d time.Duration) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		slept := make(chan error, 1)
		go func() { slept <- sleep.For(ctx, d) }()
		select {
		case err := <-slept:
			return err
		case err := <-ended:
			if ctx.Err() != nil {
				return ctx.Err() // the peer may end as well
			}
			return fmt.Errorf("the peer ended a connection: %w; it must read all that comes, as `sluice qualify --receive %s` does", err, peer)
		}
	}
	if err := wait(o.Warm); err != nil {
		return r, err
	}
	before, err := o.look(ctx, conns)
	if err == nil {
		err = wait(o.During)
	}
	var after figures
	if err == nil {
		after, err = o.look(ctx, conns)
	}
	if err != nil {
		return r, err
	}
	r = qualify.Round{
		Flows: n, Took: after.at.Sub(before.at), Acked: after.acked - before.acked, Resent: after.resent - before.resent,
		Segment: after.segment, Headers: after.headers,
		Sent: after.sent - min(before.sent, after.sent), Busiest: busiest(before.cpus, after.cpus),
	}
	return r, nil
}

// chunk is how much is written at once, in bytes.
const chunk = 256 << 10

// fill writes until the connection is closed.
func fill(c net.Conn) error {
	b := make([]byte, chunk)
	for {
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
}

// figures are sums at one moment.
type figures struct {
	at      time.Time
	acked   uint64 // payload bytes, of all connections
	resent  uint64
	segment int
	headers int
	sent    uint64 // bytes that left the PF
	cpus    []cpu
}

// Bytes of headers.
const (
	ethernet   = 14
	ip4, ip6   = 20, 40
	tcpHeader  = 20
	timestamps = 12
	hasStamps  = 1 // TCPI_OPT_TIMESTAMPS
)

func (o *Options) look(ctx context.Context, conns []*net.TCPConn) (f figures, err error) {
	link, err := o.Kernel.Link(ctx, o.PF)
	if err != nil {
		return f, err
	}
	f.sent = link.Counters.TxBytes
	vfs, err := o.Kernel.VFCounters(ctx, o.PF)
	if err != nil {
		return f, err
	}
	for _, c := range vfs {
		f.sent += c.TxBytes
	}
	if f.cpus, err = cpus(); err != nil {
		return f, err
	}
	for range lookTries {
		if err := f.count(conns); err != nil {
			return f, fmt.Errorf("read what a connection carried: %w", err)
		}
		if time.Since(f.at) < lookWithin {
			break
		}
	}
	return f, nil
}

// A reading of all connections that took longer, because other processes had the CPU meanwhile, belongs to no moment, and is repeated.
const (
	lookTries  = 20
	lookWithin = 2 * time.Millisecond
)

// count reads what the connections carried.
func (f *figures) count(conns []*net.TCPConn) error {
	f.at, f.acked, f.resent = time.Now(), 0, 0
	for _, c := range conns {
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		var info *unix.TCPInfo
		var failed error
		if err := errors.Join(raw.Control(func(fd uintptr) {
			info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) //nolint:gosec // a descriptor
		}), failed); err != nil {
			return err
		}
		f.acked += info.Bytes_acked
		f.resent += info.Bytes_retrans
		f.segment, f.headers = int(info.Snd_mss), ethernet+ip4+tcpHeader
		if addrPort(c.RemoteAddr()).Addr().Unmap().Is6() {
			f.headers += ip6 - ip4
		}
		if info.Options&hasStamps != 0 {
			f.headers += timestamps
		}
	}
	return nil
}
