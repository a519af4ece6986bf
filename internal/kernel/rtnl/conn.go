package rtnl

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// bufferSize holds the largest answer: one PF with its VFs, whose list is an attribute and
// so at most 64 KiB. (Dumps come in pieces of 32 KiB at most.)
const bufferSize = 128 << 10

// dumpTries bounds how often a dump that the kernel marks as inconsistent is repeated;
// the last is taken as it is.
const dumpTries = 4

// lostAfter is when an answer counts as lost, so that it does not hold the turn for ever.
const lostAfter = 10 * time.Second

// Conn is a socket for requests, one at a time; others wait for their turn or their
// context. The kernel works on a request inside the system call, which no context can
// interrupt: such a call is left behind and keeps the turn until it ends. Errors of the
// kernel are *netlink.OpError, and wrap the errno.
type Conn struct {
	turn   chan struct{}
	closed atomic.Bool
	sock   *netlink.Conn // nil: to be opened anew
}

// Dial opens a socket in the network namespace of the calling thread, which must be that
// of the process.
func Dial() (*Conn, error) {
	sock, err := open()
	if err != nil {
		return nil, err
	}
	return &Conn{turn: make(chan struct{}, 1), sock: sock}, nil
}

func open() (*netlink.Conn, error) {
	sock, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{Strict: true, MessageBufferSize: bufferSize})
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	return sock, nil
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
		c.drop()
	default:
	}
}

// drop closes the socket. An answer to what failed may still be on its way to it, which
// must not be taken for that to the next request.
func (c *Conn) drop() {
	if c.sock != nil {
		_ = c.sock.Close()
		c.sock = nil
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
		_, err := c.execute(req, netlink.Acknowledge)
		return struct{}{}, err
	})
	return err
}

// Get sends a request that is answered by one message, and decodes that.
func Get[T any](ctx context.Context, c *Conn, req *Request, decode func(Message) (T, error)) (T, error) {
	return with(ctx, c, func() (v T, err error) {
		msgs, err := c.execute(req, 0)
		for i := range msgs {
			if v, err = decode(messageOf(&msgs[i])); err != nil {
				break
			}
		}
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
			msgs, err := c.execute(req, netlink.Dump)
			if err != nil {
				return nil, err
			}
			interrupted := false
			for i := range msgs {
				interrupted = interrupted || msgs[i].Header.Flags&netlink.DumpInterrupted != 0
				if v, ok := decode(messageOf(&msgs[i])); ok {
					out = append(out, v)
				}
			}
			if !interrupted {
				break
			}
		}
		return out, nil
	})
}

func messageOf(m *netlink.Message) Message {
	return Message{Type: uint16(m.Header.Type), Data: m.Data}
}

// execute sends a request and returns the answers.
func (c *Conn) execute(req *Request, flags netlink.HeaderFlags) (msgs []netlink.Message, err error) {
	if c.sock == nil {
		if c.sock, err = open(); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			c.drop()
		}
	}()
	if err := c.sock.SetReadDeadline(time.Now().Add(lostAfter)); err != nil {
		return nil, err
	}
	return c.sock.Execute(req.message(flags))
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
