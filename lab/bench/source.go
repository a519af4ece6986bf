package main

import (
	"cmp"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A full segment: 1448 of 1538 bytes on the wire are payload.
const (
	segmentWire    = 1538
	segmentPayload = 1448
)

// sendBuffer is small, so that a guest with nothing more to send falls silent at once.
const sendBuffer = 192 << 10

// source is what one guest sends: flows that share its demand equally.
type source struct {
	conns []*net.TCPConn
}

// attackBuffer is how much an attacker's flow may have waiting besides what is on its way: it would go on sending all for so long.
const attackBuffer = 8 << 10

// dial opens the flows of guest i to an address.
func dial(i int, g *guest, cc, to string) (*source, error) {
	s := &source{}
	d := net.Dialer{Timeout: 5 * time.Second, Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		err := c.Control(func(fd uintptr) {
			set = cmp.Or(unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, cc),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer))
			if g.attack != nil {
				set = cmp.Or(set, unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, attackBuffer))
			}
		})
		return cmp.Or(err, set)
	}}
	err := inNS(guestNS(i), func() error {
		for range g.flows {
			c, err := d.Dial("tcp4", to)
			if err != nil {
				return fmt.Errorf("guest %d: %w", i+1, err)
			}
			s.conns = append(s.conns, c.(*net.TCPConn))
		}
		return nil
	})
	return s, err
}

// run sends what the guest demands between begin and end. Before begin, it sends what the guest demands at begin.
func (s *source) run(g *guest, begin, end time.Time) {
	if g.attack != nil {
		s.alternate(g.attack, end)
		return
	}
	for i, p := range g.demand {
		until := end
		if i+1 < len(g.demand) {
			until = begin.Add(g.demand[i+1].from)
		}
		s.send(p.bits, until)
	}
}

// alternate sends all that it can and a part of what it got then by turns.
func (s *source) alternate(a *attack, end time.Time) {
	at := time.Now().Add(a.late)
	s.send(unlimited, at)
	for at.Before(end) {
		mean := s.measure(func() {
			at = at.Add(a.all)
			s.send(unlimited, earlier(at, end))
		})
		at = at.Add(a.less)
		s.send(a.part*mean, earlier(at, end))
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// measure returns the rate at which data arrived while f ran, in bits/s on the wire, as the guest sees it.
func (s *source) measure(f func()) float64 {
	arrived := func() (bytes float64) {
		for _, c := range s.conns {
			if info, err := tcpInfo(c); err == nil {
				bytes += float64(info.Bytes_acked)
			}
		}
		return bytes
	}
	begin, before := time.Now(), arrived()
	f()
	return 8 * (arrived() - before) / segmentPayload * segmentWire / time.Since(begin).Seconds()
}

// send sends bits/s on all flows together, or as fast as it can, until the given time.
func (s *source) send(bits float64, until time.Time) {
	var all sync.WaitGroup
	for _, c := range s.conns {
		all.Go(func() { (&flow{conn: c, share: 1 / float64(len(s.conns))}).send(bits, until) })
	}
	all.Wait()
}

// close aborts the flows with whatever they have buffered, and returns the number of retransmitted segments.
func (s *source) close() (again uint64) {
	for _, c := range s.conns {
		if info, err := tcpInfo(c); err == nil {
			again += uint64(info.Total_retrans)
		}
		_ = c.SetLinger(0)
		c.Close()
	}
	return again
}

type flow struct {
	conn  *net.TCPConn
	share float64
}

// zeros is the data that is sent: whole segments.
var zeros [22 * segmentPayload]byte

// send sends the flow's share of bits/s on the wire, or as fast as it can, until the given time.
func (f *flow) send(bits float64, until time.Time) {
	_ = f.conn.SetWriteDeadline(until)
	switch bits {
	case 0:
		time.Sleep(time.Until(until))
	case unlimited:
		for time.Now().Before(until) {
			_, _ = f.conn.Write(zeros[:]) // fails at the deadline
		}
	default:
		f.pace(bits/8*f.share*segmentPayload/segmentWire, until)
	}
}

// pace sends bytes/s like an application that produces data at that rate and drops what it could not send within 20 ms.
func (f *flow) pace(bytes float64, until time.Time) {
	size := min(max(1, int(bytes*.01/segmentPayload)), 11) * segmentPayload
	credit, last := 0.0, time.Now()
	for now := last; now.Before(until); now = time.Now() {
		credit = min(credit+now.Sub(last).Seconds()*bytes, bytes*.02+float64(size))
		last = now
		if credit < float64(size) {
			wait := time.Duration((float64(size) - credit) / bytes * 1e9)
			time.Sleep(min(wait, 20*time.Millisecond, time.Until(until)))
			continue
		}
		credit -= float64(size)
		_, _ = f.conn.Write(zeros[:size])
	}
}

func tcpInfo(c *net.TCPConn) (info *unix.TCPInfo, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	return info, cmp.Or(failed, err)
}
