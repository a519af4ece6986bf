package rtnl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// bufferSize holds the largest answer: one PF with its VFs. (Dumps come in pieces of
// 32 KiB at most.)
const bufferSize = 256 << 10

// dumpTries bounds how often a dump that the kernel marks as inconsistent is repeated;
// the last is taken as it is.
const dumpTries = 4

// Error is the kernel's refusal, with its own words if it gave any.
type Error struct {
	Errno unix.Errno
	Text  string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Text == "" {
		return e.Errno.Error()
	}
	return e.Errno.Error() + " (" + e.Text + ")"
}

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// Conn is a socket for requests, one at a time; others wait for their turn or their
// context. The kernel works on a request inside the system call, which no context can
// interrupt: such a call is left behind and keeps the turn until it ends.
type Conn struct {
	turn   chan struct{}
	closed atomic.Bool
	fd     int
	seq    uint32
	buf    []byte
}

// Dial opens a socket in the network namespace of the calling thread.
func Dial() (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	// Connected, it accepts nothing but the kernel's answers.
	if err := unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("connect rtnetlink socket: %w", err)
	}
	// Texts and filters in dumps are conveniences of newer kernels; without them all works.
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	// An answer that was lost must not hold the turn for ever.
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10})
	return &Conn{turn: make(chan struct{}, 1), fd: fd, buf: make([]byte, bufferSize)}, nil
}

// Close closes the socket, after the request under way if there is one.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.closeIfIdle()
	return nil
}

// closeIfIdle takes the turn for good; whoever gets it closes.
func (c *Conn) closeIfIdle() {
	select {
	case c.turn <- struct{}{}:
		_ = unix.Close(c.fd)
	default:
	}
}

func (c *Conn) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.closed.Load() {
		return os.ErrClosed
	}
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Conn) release() {
	<-c.turn
	if c.closed.Load() {
		c.closeIfIdle()
	}
}

// Do sends a request and waits for its acknowledgement.
func (c *Conn) Do(ctx context.Context, req *Request) error {
	_, err := with(ctx, c, func() (struct{}, error) {
		_, err := c.transact(req, unix.NLM_F_ACK, func(Message) error { return nil })
		return struct{}{}, err
	})
	return err
}

// Get sends a request that is answered by one message, and decodes that.
func Get[T any](ctx context.Context, c *Conn, req *Request, decode func(Message) (T, error)) (T, error) {
	return with(ctx, c, func() (v T, err error) {
		_, err = c.transact(req, unix.NLM_F_ACK, func(m Message) (err error) {
			v, err = decode(m)
			return err
		})
		return v, err
	})
}

// Dump sends a request that is answered by many messages, and collects those that
// decode takes. decode runs in another goroutine and may outlive the call: it must not
// write to anything of the caller's.
func Dump[T any](ctx context.Context, c *Conn, req *Request, decode func(Message) (T, bool)) ([]T, error) {
	return with(ctx, c, func() (out []T, err error) {
		for range dumpTries {
			out = out[:0]
			interrupted, err := c.transact(req, unix.NLM_F_DUMP, func(m Message) error {
				if v, ok := decode(m); ok {
					out = append(out, v)
				}
				return nil
			})
			if err != nil || !interrupted {
				return out, err
			}
		}
		return out, nil
	})
}

// with runs fn with the turn in a goroutine of its own, so that the caller can leave.
func with[T any](ctx context.Context, c *Conn, fn func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	var none T
	if err := c.acquire(ctx); err != nil {
		return none, err
	}
	done := make(chan result, 1)
	go func() {
		v, err := fn()
		c.release()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

var errTruncated = errors.New("truncated answer")

// transact sends a request and hands the answers to each until the kernel says that was
// all. The first error of each is returned, after the rest was read.
func (c *Conn) transact(req *Request, flags uint16, each func(Message) error) (interrupted bool, err error) {
	c.seq++
	if _, err := unix.Write(c.fd, req.seal(c.seq, flags)); err != nil {
		return false, os.NewSyscallError("send", err)
	}
	a := answers{seq: c.seq, each: each}
	for !a.done {
		n, err := c.read()
		if err != nil {
			return false, err
		}
		a.take(c.buf[:n])
	}
	return a.interrupted, a.err
}

func (c *Conn) read() (int, error) {
	for {
		n, err := unix.Read(c.fd, c.buf)
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return 0, os.NewSyscallError("receive", err)
		}
	}
}

// answers sorts out the answers to one request.
type answers struct {
	seq         uint32
	each        func(Message) error
	done        bool
	interrupted bool
	err         error
}

// take reads one datagram. Leftovers of a request that failed midway have an older
// sequence number.
func (a *answers) take(b []byte) {
	for len(b) > 0 && !a.done {
		h, data, rest, ok := next(b)
		if !ok {
			a.fail(errTruncated)
			a.done = true
			return
		}
		if h.seq == a.seq {
			a.message(h, data)
		}
		b = rest
	}
}

func (a *answers) message(h header, data []byte) {
	a.interrupted = a.interrupted || h.flags&unix.NLM_F_DUMP_INTR != 0
	switch h.typ {
	case unix.NLMSG_NOOP:
	case unix.NLMSG_ERROR, unix.NLMSG_DONE:
		a.done = true
		a.fail(verdict(h, data))
	default:
		a.fail(a.each(Message{Type: h.typ, Flags: h.flags, Data: data}))
	}
}

func (a *answers) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// verdict reads the errno and the kernel's text from NLMSG_ERROR or NLMSG_DONE.
func verdict(h header, data []byte) error {
	errno := int32(U32(data))
	if errno >= 0 {
		return nil
	}
	e := &Error{Errno: unix.Errno(-errno)}
	if h.flags&unix.NLM_F_ACK_TLVS != 0 {
		e.Text = string(CString(Attr(explanation(h, data), unix.NLMSGERR_ATTR_MSG)))
	}
	return e
}

// explanation finds the attributes behind the errno: an NLMSG_ERROR repeats the header
// of the request first, and all of the request if the kernel did not cap it.
func explanation(h header, data []byte) []byte {
	if h.typ == unix.NLMSG_DONE {
		return Body(data, 4)
	}
	skip := 4 + unix.NLMSG_HDRLEN
	if h.flags&unix.NLM_F_CAPPED == 0 {
		skip = 4 + align(int(U32(Body(data, 4))))
	}
	if skip < 0 || skip > len(data) {
		return nil
	}
	return data[skip:]
}
