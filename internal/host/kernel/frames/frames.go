package frames

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/base/sleep"
	"sluice/internal/model"
)

// EtherType of test frames: the first one for local experiments (IEEE 802). No host answers it.
const EtherType = 0x88b5

// Frame sizes in bytes, without checksum.
const (
	MinSize = 60
	MaxSize = 1514
)

// Mark distinguishes the test frames of one purpose from all others.
type Mark uint64

// NewMark returns a random Mark.
func NewMark() Mark { return Mark(rand.Uint64()) } //nolint:gosec // it need not be secret

// Frame is a test frame.
type Frame struct {
	To, From model.MAC
	Mark     Mark
	Size     int // bytes, from MinSize to MaxSize; 0: MinSize
}

// markAt is the offset of the mark.
const markAt = 14

func (f *Frame) bytes() []byte {
	b := make([]byte, max(f.Size, MinSize))
	copy(b, f.To[:])
	copy(b[6:], f.From[:])
	binary.BigEndian.PutUint16(b[12:], EtherType)
	binary.BigEndian.PutUint64(b[markAt:], uint64(f.Mark))
	return b
}

// Sender sends out of one interface, as if the host did.
type Sender struct {
	fd   int
	addr unix.SockaddrLinklayer
}

// sendWithin bounds the wait for space in the interface's queue.
const sendWithin = 2 * time.Second

// NewSender opens a socket in a Space; nil means the namespace of the process.
func NewSender(s *Space, name string) (out *Sender, err error) {
	out = &Sender{}
	err = s.in(func() error {
		if out.addr.Ifindex, err = index(name); err != nil {
			return err
		}
		out.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // 0: receives nothing
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open a packet socket on %s: %w", name, err)
	}
	tv := unix.NsecToTimeval(int64(sendWithin))
	if err := unix.SetsockoptTimeval(out.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv); err != nil {
		return nil, errors.Join(fmt.Errorf("bound what is sent on %s: %w", name, err), out.Close())
	}
	return out, nil
}

// Close closes the socket.
func (s *Sender) Close() error { return unix.Close(s.fd) }

// Send sends n frames with a pause after each, and returns how many the kernel accepted.
func (s *Sender) Send(ctx context.Context, f Frame, n int, pause time.Duration) (sent int, err error) {
	b := f.bytes()
	for sent < n {
		if err := s.send(b); err != nil {
			return sent, err
		}
		sent++
		if pause > 0 && sleep.For(ctx, pause) != nil {
			break
		}
	}
	return sent, ctx.Err()
}

// Flood sends frames for duration d, as fast as the interface accepts them.
func (s *Sender) Flood(ctx context.Context, f Frame, d time.Duration) (sent int, took time.Duration, err error) {
	b := f.bytes()
	begin := time.Now()
	for ctx.Err() == nil {
		if took = time.Since(begin); took >= d {
			return sent, took, nil
		}
		if err := s.send(b); err != nil {
			return sent, took, err
		}
		sent++
	}
	return sent, took, ctx.Err()
}

// send retries while the queue is full: a driver out of space drops frames or returns ENOBUFS.
func (s *Sender) send(b []byte) error {
	for until := time.Now().Add(sendWithin); ; time.Sleep(100 * time.Microsecond) {
		err := unix.Sendto(s.fd, b, 0, &s.addr)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.ENOBUFS) || time.Now().After(until):
			return fmt.Errorf("send a test frame: %w", err)
		}
	}
}

// Counter counts frames with one mark that an interface receives, before a bridge takes them if it is a bridge port. It ignores
// frames that the host itself sends out of the interface. The kernel counts, so none is missed.
type Counter struct {
	fd  int
	sum int
}

// NewCounter opens a socket in a Space; nil means the namespace of the process.
func NewCounter(s *Space, name string, m Mark) (*Counter, error) {
	c := &Counter{fd: -1}
	err := s.in(func() error {
		n, err := index(name)
		if err == nil {
			c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		}
		if err == nil {
			err = c.listen(n, m)
		}
		return err
	})
	if err != nil {
		if c.fd >= 0 {
			err = errors.Join(err, unix.Close(c.fd))
		}
		return nil, fmt.Errorf("count test frames on %s: %w", name, err)
	}
	return c, nil
}

// listen attaches the filter before binding, so that nothing else is counted in between.
func (c *Counter) listen(n int, m Mark) error {
	filter := accept(m)
	if err := unix.SetsockoptSockFprog(c.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(c.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
		return err
	}
	all := uint16(unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8)
	return unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: n})
}

// accept returns a filter for frames with the mark.
func accept(m Mark) []unix.SockFilter {
	load := func(size uint16, at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_ABS | size, K: at}
	}
	want := func(k uint32, otherwise uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: otherwise}
	}
	return []unix.SockFilter{
		load(unix.BPF_H, 12), want(EtherType, 5),
		load(unix.BPF_W, markAt), want(uint32(m>>32), 3),
		load(unix.BPF_W, markAt+4), want(uint32(m), 1), //nolint:gosec // the lower half
		{Code: unix.BPF_RET | unix.BPF_K, K: MinSize},
		{Code: unix.BPF_RET | unix.BPF_K},
	}
}

// Count returns the number of frames received since NewCounter.
func (c *Counter) Count() (int, error) {
	st, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS) // since the last read
	if err != nil {
		return c.sum, fmt.Errorf("read how many frames came in: %w", err)
	}
	c.sum += int(st.Packets) // includes those dropped for lack of space
	return c.sum, nil
}

// Await waits at most that long for n frames, and returns how many have arrived.
func (c *Counter) Await(ctx context.Context, n int, most time.Duration) (int, error) {
	for until := time.Now().Add(most); ; {
		have, err := c.Count()
		if err != nil || have >= n || time.Now().After(until) {
			return have, err
		}
		if err := sleep.For(ctx, 10*time.Millisecond); err != nil {
			return have, err
		}
	}
}

// Close closes the socket.
func (c *Counter) Close() error { return unix.Close(c.fd) }
