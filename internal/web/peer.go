package web

import (
	"context"
	"fmt"
	"net"
	"syscall"
)

// peer is who is at the other end of a connection.
type peer struct {
	local bool // over the unix socket, so uid and pid are true
	uid   uint32
	pid   int32
}

// mayChange says whether the peer may change anything: root, over the unix socket.
func (p peer) mayChange() bool { return p.local && p.uid == 0 }

// String names the peer in the log.
func (p peer) String() string {
	if !p.local {
		return "TCP"
	}
	return fmt.Sprintf("uid %d (pid %d)", p.uid, p.pid)
}

type peerKey struct{}

// withPeer is an http.Server's ConnContext. A peer whose credentials cannot be read is
// treated as one that may only read.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if s, ok := c.(*slotConn); ok {
		c = s.Conn
	}
	var p peer
	if u, ok := c.(*net.UnixConn); ok {
		p = credentials(u)
	}
	return context.WithValue(ctx, peerKey{}, p)
}

func peerOf(ctx context.Context) peer {
	p, _ := ctx.Value(peerKey{}).(peer)
	return p
}

// credentials asks the kernel who connected.
func credentials(u *net.UnixConn) peer {
	raw, err := u.SyscallConn()
	if err != nil {
		return peer{}
	}
	var cred *syscall.Ucred
	err = raw.Control(func(fd uintptr) {
		cred, _ = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil || cred == nil {
		return peer{}
	}
	return peer{local: true, uid: cred.Uid, pid: cred.Pid}
}
