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

// Listener is a socket for the kernel's notifications. It supports a single reader.
type Listener struct {
	sock *netlink.Conn
	raw  syscall.RawConn
}

// ErrLost means that notifications arrived faster than they were read, and some were lost.
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

// Close ends the subscription and a pending Receive.
func (l *Listener) Close() error { return l.sock.Close() }

// SetBuffer sets the size of the receive buffer in bytes; the kernel has a minimum.
func (l *Listener) SetBuffer(n int) error { return l.sock.SetReadBuffer(n) }

// Drain discards all pending notifications and reports whether there were any, including lost ones. It does not block.
func (l *Listener) Drain() bool {
	some := false
	err := l.raw.Control(func(fd uintptr) {
		for {
			var b [1]byte // the kernel discards the rest of the datagram
			_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_DONTWAIT)
			switch {
			case errors.Is(err, unix.EAGAIN):
				return
			case err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOBUFS):
				some = true // the state of a broken socket is unknown
				return
			}
			some = true
		}
	})
	return some || err != nil
}

// Receive waits for the next notifications or the end of ctx. After ErrLost more may be lost without an error until the socket is
// drained.
func (l *Listener) Receive(ctx context.Context) ([]Message, error) {
	for {
		msgs, err := l.await(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, unix.ENOBUFS):
			return nil, ErrLost
		case errors.Is(err, os.ErrDeadlineExceeded):
			// Woken by the context of an earlier call, which ended just as that call returned.
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
		msgs[i] = Message{Type: uint16(got[i].Header.Type), Data: got[i].Data}
	}
	return msgs, err
}
