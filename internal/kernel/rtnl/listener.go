package rtnl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listener is a socket for the kernel's notifications. A Listener is for one reader.
type Listener struct {
	file *os.File
	raw  syscall.RawConn
	buf  []byte
}

// ErrLost says that notifications came faster than they were read and some are lost.
var ErrLost = errors.New("notifications lost")

// Listen subscribes to groups (RTNLGRP_...) in the network namespace of the calling thread.
func Listen(groups ...int) (*Listener, error) {
	const kind = unix.SOCK_RAW | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	fd, err := unix.Socket(unix.AF_NETLINK, kind, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	if err := join(fd, groups); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("subscribe to rtnetlink notifications: %w", err)
	}
	file := os.NewFile(uintptr(fd), "rtnetlink notifications")
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &Listener{file: file, raw: raw, buf: make([]byte, 64<<10)}, nil
}

func join(fd int, groups []int) error {
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for _, g := range groups {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the subscription and a Receive under way.
func (l *Listener) Close() error { return l.file.Close() }

// SetBuffer sets how many bytes of notifications may wait; the kernel has a minimum.
func (l *Listener) SetBuffer(n int) error {
	var err error
	cerr := l.raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, n)
	})
	return errors.Join(cerr, os.NewSyscallError("setsockopt", err))
}

// Drain throws away what has come in and says whether there was anything, lost
// notifications included. It does not wait.
func (l *Listener) Drain() bool {
	any := false
	for {
		_, err := l.receive(func(error) bool { return true })
		if err != nil && !errors.Is(err, ErrLost) {
			// Nothing waits; of a broken socket nothing can be known.
			return any || !errors.Is(err, unix.EAGAIN)
		}
		any = true
	}
}

// Receive waits for the next datagram: use Messages on it, before the next Receive. After
// ErrLost the subscription goes on. It ends with ctx.
func (l *Listener) Receive(ctx context.Context) ([]byte, error) {
	for {
		b, err := l.await(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded):
			// Woken by the context of an earlier call that ended as that returned.
		default:
			return b, err
		}
	}
}

func (l *Listener) await(ctx context.Context) ([]byte, error) {
	if err := l.file.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	wake := func() { _ = l.file.SetReadDeadline(time.Unix(1, 0)) }
	defer context.AfterFunc(ctx, wake)()
	return l.receive(func(err error) bool { return !errors.Is(err, unix.EAGAIN) })
}

// receive reads one datagram; done says after which errors not to wait.
func (l *Listener) receive(done func(error) bool) ([]byte, error) {
	var n int
	var err error
	rerr := l.raw.Read(func(fd uintptr) bool {
		for {
			n, err = unix.Read(int(fd), l.buf)
			if !errors.Is(err, unix.EINTR) {
				return done(err)
			}
		}
	})
	switch {
	case rerr != nil:
		return nil, rerr
	case errors.Is(err, unix.ENOBUFS):
		return nil, ErrLost
	case err != nil:
		return nil, os.NewSyscallError("receive", err)
	}
	return l.buf[:n], nil
}
