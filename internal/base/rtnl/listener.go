package rtnl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Listener is a socket for the kernel's notifications. A Listener is for one reader.
type Listener struct {
	sock *netlink.Conn
	raw  syscall.RawConn
}

// ErrLost says that notifications came faster than they were read and some are lost.
var ErrLost = errors.New("notifications lost")

// Listen subscribes to groups (RTNLGRP_...) in the network namespace of the calling thread.
func Listen(groups ...uint32) (*Listener, error) {
	sock, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{MessageBufferSize: bufferSize})
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	raw, err := sock.SyscallConn()
	for _, g := range groups {
		err = errors.Join(err, sock.JoinGroup(g))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to rtnetlink notifications: %w", err), sock.Close())
	}
	return &Listener{sock: sock, raw: raw}, nil
}

// Close ends the subscription and a Receive under way.
func (l *Listener) Close() error { return l.sock.Close() }

// SetBuffer sets how many bytes of notifications may wait; the kernel has a minimum.
func (l *Listener) SetBuffer(n int) error { return l.sock.SetReadBuffer(n) }

// Drain throws away what has come in and says whether there was anything, lost
// notifications included. It does not wait.
func (l *Listener) Drain() bool {
	some := false
	err := l.raw.Control(func(fd uintptr) {
		for {
			var b [1]byte // the rest of a datagram goes too
			_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_DONTWAIT)
			switch {
			case errors.Is(err, unix.EAGAIN):
				return
			case err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOBUFS):
				some = true // of a broken socket nothing can be known
				return
			}
			some = true
		}
	})
	return some || err != nil
}

// Receive waits for the next notifications. After ErrLost more may be lost unsaid, until all that waits has been read. It
// ends with ctx.
func (l *Listener) Receive(ctx context.Context) ([]Message, error) {
	for {
		msgs, err := l.await(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, unix.ENOBUFS):
			return nil, ErrLost
		case errors.Is(err, os.ErrDeadlineExceeded):
			// Woken by the context of an earlier call that ended as that returned.
		default:
			return msgs, err
		}
	}
}

func (l *Listener) await(ctx context.Context) ([]Message, error) {
	if err := l.sock.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	wake := func() { _ = l.sock.SetReadDeadline(time.Unix(1, 0)) }
	defer context.AfterFunc(ctx, wake)()
	got, err := l.sock.Receive()
	msgs := make([]Message, len(got))
	for i := range got {
		msgs[i] = messageOf(&got[i])
	}
	return msgs, err
}
