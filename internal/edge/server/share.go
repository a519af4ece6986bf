package server

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

// Bounds of streams of events, which last for hours and cost little. They have places apart, so that
// pages that are open leave room for requests.
const (
	streamsPerPeer = 64 // of one user, or of one address
	streamsPerAll  = 128
)

// shared gives every peer a share of the connections. What is beyond the share is refused
// at once: to let it wait, as a listener with a plain limit does, would be to let everybody
// wait behind it.
type shared struct {
	net.Listener
	requests, streams *places

	refusals chan struct{} // a place for each that is being refused
}

func inShares(l net.Listener, most, mostAll int) *shared {
	return &shared{
		Listener: l, requests: newPlaces(most, mostAll), streams: newPlaces(streamsPerPeer, streamsPerAll),
		refusals: make(chan struct{}, patients),
	}
}

// places counts connections by the name of their share.
type places struct {
	most, mostAll int // of one peer, of all but root

	mu   sync.Mutex
	used map[string]int
	all  int // but root's
}

func newPlaces(most, mostAll int) *places {
	return &places{most: most, mostAll: mostAll, used: map[string]int{}}
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
		if l.requests.take(name) {
			return &sharedConn{Conn: c, peer: p, share: name, streams: l.streams, in: l.requests}, nil
		}
		l.refuse(c, name)
	}
}

func (p *places) take(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used[name] >= p.most || name != rootShare && p.all >= p.mostAll {
		return false
	}
	p.used[name]++
	if name != rootShare {
		p.all++
	}
	return true
}

func (p *places) give(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used[name]--; p.used[name] == 0 {
		delete(p.used, name)
	}
	if name != rootShare {
		p.all--
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
		body, _ := json.Marshal(tooMany("connections", name))
		_, _ = fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}()
}

func tooMany(what, name string) *api.Error {
	return &api.Error{Text: "too many " + what + " of " + name + ", or of all", Remedy: "close some and try again"}
}

// sharedConn gives its place back when it closes.
type sharedConn struct {
	net.Conn
	peer    peer
	share   string
	streams *places

	mu sync.Mutex
	in *places // where it has its place; nil: it is closed
}

// stream moves a connection to the places of streams, for the rest of its life. It is false where there is none, and the
// connection stays where it is.
func (c *sharedConn) stream() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in == c.streams {
		return true
	}
	if c.in == nil || !c.streams.take(c.share) {
		return false
	}
	c.in.give(c.share)
	c.in = c.streams
	return true
}

// Close gives the place back once.
func (c *sharedConn) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in != nil {
		c.in.give(c.share)
		c.in = nil
	}
	return err
}
