package rtnl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// bufferSize holds the largest answer: one PF with its VFs, whose list is one attribute and therefore at most 64 KiB. (Dumps come
// in pieces of at most 32 KiB.)
const bufferSize = 128 << 10

// dumpTries bounds how often a dump that the kernel marks as inconsistent is repeated; the last one is used as it is.
const dumpTries = 4

// lostAfter is when an answer counts as lost, so that it does not block the socket forever.
const lostAfter = 10 * time.Second

// Conn is a pool of sockets for requests, each for one at a time; further requests wait for a socket or their context. The kernel
// processes a request inside the system call, which no context can interrupt: such a call is abandoned and keeps its socket until
// it returns. Errors from the kernel are *netlink.OpError and wrap the errno.
type Conn struct {
	idle   chan *socket
	closed atomic.Bool
}

// socket is reopened on its next use after drop.
type socket struct {
	*netlink.Conn
	family int // NETLINK_ROUTE or NETLINK_GENERIC
}

// Dial opens a Conn for that many concurrent requests, in the network namespace of the calling thread. After a failure it reopens
// sockets in the namespace of the process.
func Dial(sockets int) (*Conn, error) { return dialFamily(sockets, unix.NETLINK_ROUTE) }

// DialGeneric is Dial for generic netlink.
func DialGeneric(sockets int) (*Conn, error) { return dialFamily(sockets, unix.NETLINK_GENERIC) }

func dialFamily(sockets, family int) (*Conn, error) {
	c := &Conn{idle: make(chan *socket, sockets)}
	for range sockets {
		s := &socket{family: family}
		if err := s.open(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.idle <- s
	}
	return c, nil
}

func open(family int) (*netlink.Conn, error) {
	sock, err := netlink.Dial(family, &netlink.Config{Strict: true, MessageBufferSize: bufferSize})
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	return sock, nil
}

func (s *socket) open() (err error) {
	if s.Conn == nil {
		s.Conn, err = open(s.family)
	}
	return err
}

// drop closes the socket, because an answer to a failed request may still arrive, and must not be taken for that to the next
// request.
func (s *socket) drop() {
	if s.Conn != nil {
		_ = s.Close()
		s.Conn = nil
	}
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
			s.drop()
		default:
			return
		}
	}
}

func (c *Conn) acquire(ctx context.Context) (*socket, error) {
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

func (c *Conn) release(s *socket) {
	c.idle <- s
	if c.closed.Load() {
		c.closeIdle()
	}
}

// Do sends a request and waits for its acknowledgement.
func (c *Conn) Do(ctx context.Context, req *Request) error {
	_, err := with(ctx, c, func(s *socket) (struct{}, error) {
		_, err := s.execute(req, netlink.Acknowledge)
		return struct{}{}, err
	})
	return err
}

// DoAll sends many requests one after the other on one socket, continues after failures, and returns the error of each.
func (c *Conn) DoAll(ctx context.Context, reqs []*Request) []error {
	errs, err := with(ctx, c, func(s *socket) ([]error, error) {
		errs := make([]error, len(reqs))
		for i := range reqs {
			if errs[i] = ctx.Err(); errs[i] == nil {
				_, errs[i] = s.execute(reqs[i], netlink.Acknowledge)
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
	return with(ctx, c, func(s *socket) (v T, err error) {
		msgs, err := s.execute(req, 0)
		for i := range msgs {
			if v, err = decode(messageOf(&msgs[i])); err != nil {
				break
			}
		}
		return v, err
	})
}

// Dump sends a request that is answered by many messages, and collects those that decode accepts. decode runs in another
// goroutine and may outlive the call, so it must not write to any variable of the caller.
func Dump[T any](ctx context.Context, c *Conn, req *Request, decode func(Message) (T, bool)) ([]T, error) {
	return with(ctx, c, func(s *socket) (out []T, err error) {
		for range dumpTries {
			out = out[:0]
			msgs, err := s.execute(req, netlink.Dump)
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
func (s *socket) execute(req *Request, flags netlink.HeaderFlags) (msgs []netlink.Message, err error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && !refused(err) {
			s.drop()
		}
	}()
	if err := s.SetReadDeadline(time.Now().Add(lostAfter)); err != nil {
		return nil, err
	}
	return s.Execute(req.message(flags))
}

// refused reports whether an error is the kernel's answer to a request.
func refused(err error) bool {
	var e *netlink.OpError
	return errors.As(err, &e) && e.Sequence != 0
}

// with runs fn with a socket in its own goroutine, so that the caller can return when ctx ends.
func with[T any](ctx context.Context, c *Conn, fn func(*socket) (T, error)) (T, error) {
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
