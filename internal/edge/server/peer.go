package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os/user"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peer is the other end of a connection.
type peer struct {
	local  bool // over the unix socket, so that uid, pid and groups are valid
	tcp    bool
	uid    uint32
	pid    int32
	groups []uint32
}

// name returns the user's name if the host knows one.
func (p peer) name() string {
	if !p.local {
		return "TCP"
	}
	if u, err := user.LookupId(strconv.FormatUint(uint64(p.uid), 10)); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", p.uid)
}

// String formats the peer for the log.
func (p peer) String() string {
	if !p.local {
		return "TCP"
	}
	return fmt.Sprintf("%s (uid %d, pid %d)", p.name(), p.uid, p.pid)
}

type (
	peerKey struct{}
	connKey struct{}
)

// withPeer is an http.Server's ConnContext. A peer whose credentials cannot be read has read access only.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	var p peer
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if s, ok := c.(*slotConn); ok {
		p = s.peer
		ctx = context.WithValue(ctx, connKey{}, s)
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// connOf returns a request's connection, nil if the listener does not limit connections.
func connOf(ctx context.Context) *slotConn {
	c, _ := ctx.Value(connKey{}).(*slotConn)
	return c
}

func peerOf(ctx context.Context) peer {
	p, _ := ctx.Value(peerKey{}).(peer)
	return p
}

// identify returns who connected: for the unix socket, the kernel's peer credentials.
func identify(c net.Conn) peer {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return peer{tcp: true}
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return peer{}
	}
	p := peer{}
	_ = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			p = peer{local: true, uid: cred.Uid, pid: cred.Pid, groups: append(groupsOf(fd), cred.Gid)}
		}
	})
	return p
}

// groupsOf returns the groups that the peer had when it connected.
func groupsOf(fd uintptr) []uint32 {
	list := make([]uint32, 32)
	for range 2 {
		size := uint32(4 * len(list))
		_, _, err := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS, uintptr(unsafe.Pointer(&list[0])),
			uintptr(unsafe.Pointer(&size)), 0)
		switch err {
		case 0:
			return list[:size/4]
		case unix.ERANGE:
			list = make([]uint32, size/4)
		default:
			return nil
		}
	}
	return nil
}
