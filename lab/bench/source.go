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

// dial opens the flows of guest i to an address.
func dial(i, flows int, cc, to string) (*source, error) {
	s := &source{}
	d := net.Dialer{Timeout: 5 * time.Second, Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		err := c.Control(func(fd uintptr) {
			set = cmp.Or(unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, cc),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer))
		})
		return cmp.Or(err, set)
	}}
	err := inNS(guestNS(i), func() error {
		for range flows {
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

// run sends according to the demand between begin and end. Before begin, it sends according to the demand at begin.
func (s *source) run(demand []phase, begin, end time.Time) {
	var all sync.WaitGroup
	for _, c := range s.conns {
		all.Go(func() {
			f := flow{conn: c, share: 1 / float64(len(s.conns))}
			for i, p := range demand {
				until := end
				if i+1 < len(demand) {
					until = begin.Add(demand[i+1].from)
				}
				f.send(p.bits, until)
			}
		})
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
