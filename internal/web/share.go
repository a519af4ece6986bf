package web

import (
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"sluice/api/v1"
)

// Bounds of the connections of one listener. Whoever may read must be able to use up
// neither the daemon's file descriptors nor the places of others.
const (
	perPeer = 16 // of one user
	perAll  = 64 // of all but root, who has perPeer of their own

	perAddress = 64 // of one address over TCP, behind which there may be many
	perNetwork = 256
)

// shared gives every peer a share of the connections. What is beyond the share is refused
// at once: to let it wait, as a listener with a plain limit does, would be to let everybody
// wait behind it.
type shared struct {
	net.Listener
	most, mostAll int // of one peer, of all but root

	mu   sync.Mutex
	used map[string]int
	all  int // but root's

	refusals chan struct{} // a place for each that is being refused
}

func inShares(l net.Listener, most, mostAll int) *shared {
	return &shared{Listener: l, most: most, mostAll: mostAll, used: map[string]int{}, refusals: make(chan struct{}, patients)}
}

// rootShare is the name of the share that does not count against the sum.
const rootShare = "uid 0"

// shareOf names the share of a connection.
func shareOf(c net.Conn, p peer) string {
	if p.local {
		return fmt.Sprintf("uid %d", p.uid)
	}
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return "unknown peers"
	}
	return host
}

// Accept returns the next connection that is within its peer's share.
func (l *shared) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		p := identify(c)
		name := shareOf(c, p)
		if l.take(name) {
			return &sharedConn{Conn: c, peer: p, free: sync.OnceFunc(func() { l.give(name) })}, nil
		}
		l.refuse(c, name)
	}
}

func (l *shared) take(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used[name] >= l.most || name != rootShare && l.all >= l.mostAll {
		return false
	}
	l.used[name]++
	if name != rootShare {
		l.all++
	}
	return true
}

func (l *shared) give(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used[name]--; l.used[name] == 0 {
		delete(l.used, name)
	}
	if name != rootShare {
		l.all--
	}
}

// patience is how long somebody who is refused may take to send the request that is
// answered with the refusal; only so many are waited for at a time.
const (
	patience = 200 * time.Millisecond
	patients = 32
)

// refuse closes a connection and says why, if that is not asked too often.
func (l *shared) refuse(c net.Conn, name string) {
	select {
	case l.refusals <- struct{}{}:
	default:
		_ = c.Close()
		return
	}
	go func() {
		defer func() { _ = c.Close(); <-l.refusals }()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, maxHeader)); err != nil {
			return
		}
		body, _ := json.Marshal(api.Error{Text: "too many connections of " + name + ", or of all", Remedy: "close some and try again"})
		_, _ = fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}()
}

// sharedConn gives its place back when it closes.
type sharedConn struct {
	net.Conn
	peer peer
	free func()
}

func (c *sharedConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}
