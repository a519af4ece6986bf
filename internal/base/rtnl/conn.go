package rtnl

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// bufferSize holds the largest answer: one PF with its VFs, whose list is one attribute and therefore at most 64 KiB. (Dumps come
// in pieces of at most 32 KiB.)
const bufferSize = 128 << 10

// dumpTries bounds how often a dump that the kernel marks as inconsistent is repeated; the last one is used as it is.
const dumpTries = 4

// Conn is a pool of sockets for requests, each for one at a time; further requests wait for a socket or their context. The kernel
// processes a request inside the system call, which no context can interrupt: such a call is abandoned and keeps its socket until
// it returns. Errors from the kernel are *netlink.OpError and wrap the errno.
type Conn struct {
	idle   chan *Reader
	closed atomic.Bool
}

// Dial opens a Conn for that many concurrent requests, in the network namespace of the calling thread. After a failure it reopens
// sockets in the namespace of the process.
func Dial(sockets int) (*Conn, error) { return dialFamily(sockets, unix.NETLINK_ROUTE) }

// DialGeneric is Dial for generic netlink.
func DialGeneric(sockets int) (*Conn, error) { return dialFamily(sockets, unix.NETLINK_GENERIC) }

func dialFamily(sockets, family int) (*Conn, error) {
	c := &Conn{idle: make(chan *Reader, sockets)}
	for range sockets {
		s, err := newReader(family)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.idle <- s
	}
	return c, nil
}

// Close closes the sockets, each after its current request, if any.
func (c *Conn) Close() error {
	c.closed.Store(true)
	c.closeIdle()
	return nil
}

func (c *Conn) closeIdle() {
	for {
		select {
		case s := <-c.idle:
			_ = s.Close()
		default:
			return
		}
	}
}

func (c *Conn) acquire(ctx context.Context) (*Reader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.closed.Load() {
		return nil, os.ErrClosed
	}
	select {
	case s := <-c.idle:
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *Conn) release(s *Reader) {
	c.idle <- s
	if c.closed.Load() {
		c.closeIdle()
	}
}

// Do sends a request and waits for its acknowledgement.
func (c *Conn) Do(ctx context.Context, req *Request) error {
	return c.DoAll(ctx, []*Request{req})[0]
}

// DoAll sends many requests one after the other on one socket, continues after failures, and returns the error of each.
func (c *Conn) DoAll(ctx context.Context, reqs []*Request) []error {
	errs, err := with(ctx, c, func(s *Reader) ([]error, error) {
		errs := make([]error, len(reqs))
		for i := range reqs {
			if errs[i] = ctx.Err(); errs[i] == nil {
				errs[i] = s.ask(reqs[i], unix.NLM_F_ACK, func(Message) {})
			}
		}
		return errs, nil
	})
	if err != nil {
		errs = slices.Repeat([]error{err}, len(reqs))
	}
	return errs
}

// Get sends a request that has a single answer, and decodes it.
func Get[T any](ctx context.Context, c *Conn, req *Request, decode func(Message) (T, error)) (T, error) {
	return with(ctx, c, func(s *Reader) (v T, err error) {
		failed := s.Get(req, func(m Message) { v, err = decode(m) })
		return v, cmp.Or(failed, err)
	})
}

// Dump sends a request that is answered by many messages, and collects those that decode accepts. decode runs in another
// goroutine and may outlive the call, so it must not write to any variable of the caller.
func Dump[T any](ctx context.Context, c *Conn, req *Request, decode func(Message) (T, bool)) ([]T, error) {
	return with(ctx, c, func(s *Reader) (out []T, err error) {
		for range dumpTries {
			out = out[:0]
			err = s.Dump(req, func(m Message) {
				if v, ok := decode(m); ok {
					out = append(out, v)
				}
			})
			if err != nil {
				return nil, err
			}
			if !s.interrupted {
				break
			}
		}
		return out, nil
	})
}

// with runs fn with a socket in its own goroutine, so that the caller can return when ctx ends.
func with[T any](ctx context.Context, c *Conn, fn func(*Reader) (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	var none T
	s, err := c.acquire(ctx)
	if err != nil {
		return none, err
	}
	done := make(chan result, 1)
	go func() {
		v, err := fn(s)
		c.release(s)
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
