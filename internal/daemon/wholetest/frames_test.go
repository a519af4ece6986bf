package wholetest

import (
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/host/kernel/kerneltest"
)

// packet is a packet socket at an interface, the far end of a veth pair.
type packet struct {
	t  testing.TB
	fd int
	at unix.SockaddrLinklayer
}

func newPacket(t *testing.T, dev string) *packet {
	t.Helper()
	l, err := net.InterfaceByName(dev)
	kerneltest.Must(t, err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	kerneltest.Must(t, err)
	p := &packet{reporter{t}, fd, unix.SockaddrLinklayer{Ifindex: l.Index, Protocol: 0x0300}} // ETH_P_ALL in network order
	kerneltest.Must(t, errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20), // a reader that waits for a processor loses nothing
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.Bind(fd, &p.at)))
	return p
}

func (p *packet) close() { _ = unix.Close(p.fd) }

// send sends a frame, which arrives at the other end of the pair.
func (p *packet) send(frame []byte) {
	if err := unix.Sendto(p.fd, frame, 0, &p.at); err != nil {
		p.t.Errorf("send through the veth pair: %v", err)
	}
}

// waiting returns the next frame that has arrived, nil if there is none.
func (p *packet) waiting() []byte {
	buf := make([]byte, 2048)
	for {
		n, _, err := unix.Recvfrom(p.fd, buf, 0)
		switch {
		case err == nil:
			return buf[:n]
		case errors.Is(err, unix.ENETDOWN), errors.Is(err, unix.EINTR): // it was set down meanwhile
			continue
		case !errors.Is(err, unix.EAGAIN):
			p.t.Errorf("receive at the veth pair: %v", err)
		}
		return nil
	}
}

// flow sends numbered frames at a fixed pace.
type flow struct {
	name  string
	mark  byte
	every time.Duration
	has   func() int // how many have arrived, by the number of the last
	mu    sync.Mutex
	sent  []time.Time
	gaps  []gap
}

// gap are the frames of a flow that may be lost: those under way when something happened, and those sent until all is at rest again.
type gap struct{ from, end int }

// span is from one time to another.
type span struct{ from, end time.Time }

// extend makes the span reach until then.
func (s *span) extend(to time.Time) {
	if s.from.IsZero() {
		s.from = to
	}
	s.end = to
}

func (s span) overlaps(o span) bool { return !s.from.After(o.end) && !s.end.Before(o.from) }

// inFlight is how many frames a switch in user space may have before it, which has a socket's buffer for them.
const inFlight = 100

// run sends until stop is closed. It goes slower while a switch gets no processor.
func (f *flow) run(to, from [6]byte, stop <-chan struct{}, send func([]byte)) {
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for n := uint32(0); ; n++ {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		for waited := 0; int(n) > f.has()+inFlight && waited < 100; waited++ { // those lost would never come
			time.Sleep(time.Millisecond)
		}
		f.mu.Lock()
		f.sent = append(f.sent, time.Now())
		f.mu.Unlock()
		send(kerneltest.Frame(to, from, string(binary.BigEndian.AppendUint32([]byte{'#', f.mark}, n))))
	}
}

// numbered returns the flow and the number of a frame of a flow to that MAC.
func numbered(frame []byte, to [6]byte) (mark byte, n int, ok bool) {
	if len(frame) < 20 || [6]byte(frame[:6]) != to || frame[14] != '#' {
		return 0, 0, false
	}
	return frame[15], int(binary.BigEndian.Uint32(frame[16:])), true
}

// next returns the number of the next frame that is sent.
func (f *flow) next() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sent)
}

// forgiven reports whether a frame may be lost.
func (f *flow) forgiven(n int) bool {
	return slices.ContainsFunc(f.gaps, func(g gap) bool { return n >= g.from && n < g.end })
}
