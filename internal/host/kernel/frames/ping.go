package frames

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Pinger measures round trips of ICMP echoes to one IPv4 address. It needs CAP_NET_RAW.
type Pinger struct {
	conn net.PacketConn
	to   net.Addr
	id   uint16
	next atomic.Uint32
	load atomic.Int64 // answers to the echoes of Load

	mu   sync.Mutex
	wait map[uint16]chan<- time.Time // pending echoes by sequence number
}

// Header sizes and ICMP types of an echo.
const (
	ipHeader   = 20
	icmpHeader = 8
	echoAsk    = 8
	echoAnswer = 0
)

// NewPinger opens a socket; Close closes it.
func NewPinger(to netip.Addr) (*Pinger, error) {
	if !to.Is4() {
		return nil, fmt.Errorf("round trips to %s: only IPv4 is measured", to)
	}
	conn, err := net.ListenPacket("ip4:icmp", "0.0.0.0")
	if err != nil {
		return nil, fmt.Errorf("open an ICMP socket: %w", err)
	}
	// Answers to a Load that find no space in the kernel's default buffer would count as lost. Without CAP_NET_ADMIN it stays as it is.
	if raw, err := conn.(*net.IPConn).SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) })
	}
	p := &Pinger{
		conn: conn, to: &net.IPAddr{IP: to.AsSlice()}, wait: map[uint16]chan<- time.Time{},
		id: uint16(os.Getpid()) ^ uint16(time.Now().UnixNano()), //nolint:gosec // any 16 bits
	}
	go p.read()
	return p, nil
}

// Close closes the socket.
func (p *Pinger) Close() error { return p.conn.Close() }

// read passes answers to their waiters.
func (p *Pinger) read() {
	b := make([]byte, 1<<16)
	for {
		n, _, err := p.conn.ReadFrom(b)
		if err != nil {
			return
		}
		now := time.Now()
		if n < icmpHeader || b[0] != echoAnswer {
			continue
		}
		switch binary.BigEndian.Uint16(b[4:]) {
		case p.loadID():
			p.load.Add(1)
			continue
		case p.id:
		default:
			continue
		}
		seq := binary.BigEndian.Uint16(b[6:])
		p.mu.Lock()
		if c := p.wait[seq]; c != nil {
			delete(p.wait, seq)
			c <- now // buffered
		}
		p.mu.Unlock()
	}
}

// Trip sends an echo in an IP packet of size bytes and returns how long the answer took; ok is false if none came within most.
func (p *Pinger) Trip(ctx context.Context, size int, most time.Duration) (took time.Duration, ok bool, err error) {
	seq := uint16(p.next.Add(1)) //nolint:gosec // it wraps
	came := make(chan time.Time, 1)
	p.mu.Lock()
	p.wait[seq] = came
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.wait, seq)
		p.mu.Unlock()
	}()
	begin := time.Now()
	if _, err := p.conn.WriteTo(echo(p.id, seq, size), p.to); err != nil {
		return 0, false, fmt.Errorf("send an echo to %s: %w", p.to, err)
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case at := <-came:
		return at.Sub(begin), true, nil
	case <-timer.C:
		return 0, false, nil
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
}

// Stream starts a round trip at each interval until stop is closed, and returns how many it started and how many had no answer
// within most.
func (p *Pinger) Stream(ctx context.Context, every, most time.Duration, stop <-chan struct{}) (sent, lost int) {
	var wg sync.WaitGroup
	var missed atomic.Int64
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			sent++
			wg.Go(func() {
				if _, ok, err := p.Trip(ctx, streamSize, most); !ok && !errors.Is(err, context.Canceled) {
					missed.Add(1)
				}
			})
			continue
		case <-stop:
		case <-ctx.Done():
		}
		wg.Wait()
		return sent, int(missed.Load())
	}
}

// streamSize is the size of a Stream's packets.
const streamSize = 84

// Flood keeps a number of concurrent round trips running for duration d.
func (p *Pinger) Flood(ctx context.Context, size, together int, d, most time.Duration) (sent, done int, during time.Duration) {
	var wg sync.WaitGroup
	var begun, answered atomic.Int64
	begin := time.Now()
	for range together {
		wg.Go(func() {
			for time.Since(begin) < d && ctx.Err() == nil {
				begun.Add(1)
				if _, ok, _ := p.Trip(ctx, size, most); ok {
					answered.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return int(begun.Load()), int(answered.Load()), time.Since(begin)
}

// Load sends echoes at a steady rate, in echoes/s, until stop is closed, without waiting for their answers. It returns the answers/s.
// Round trips can be measured meanwhile.
func (p *Pinger) Load(ctx context.Context, size int, rate float64, stop <-chan struct{}) float64 {
	packet := echo(p.loadID(), 0, size)
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	begin, before, sent := time.Now(), p.load.Load(), 0.0
	for {
		select {
		case <-tick.C:
			due := rate * time.Since(begin).Seconds()
			for sent = max(sent, due-rate*loadBurst.Seconds()); sent < due; sent++ {
				_, _ = p.conn.WriteTo(packet, p.to) // one that is not sent is not answered either
			}
			continue
		case <-stop:
		case <-ctx.Done():
		}
		return float64(p.load.Load()-before) / time.Since(begin).Seconds()
	}
}

// How a Load is sent: what is due each loadEvery; after a pause of the process at most what is due in loadBurst.
const (
	loadEvery     = time.Millisecond
	loadBurst     = 10 * time.Millisecond
	receiveBuffer = 8 << 20 // bytes
)

// loadID marks the echoes of Load.
func (p *Pinger) loadID() uint16 { return p.id + 1 }

func echo(id, seq uint16, size int) []byte {
	b := make([]byte, max(size-ipHeader, icmpHeader))
	b[0] = echoAsk
	binary.BigEndian.PutUint16(b[4:], id)
	binary.BigEndian.PutUint16(b[6:], seq)
	binary.BigEndian.PutUint16(b[2:], checksum(b))
	return b
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
