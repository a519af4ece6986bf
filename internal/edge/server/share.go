package server

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
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
// pages that are open leave room for requests. When all are taken, whoever has the most gives one up to whoever has fewer.
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
		Listener: l, requests: newPlaces(most, mostAll, false), streams: newPlaces(streamsPerPeer, streamsPerAll, true),
		refusals: make(chan struct{}, patients),
	}
}

// places holds connections by the name of their share.
type places struct {
	most, mostAll int  // of one peer, of all but root
	yield         bool // when all are taken, the share with the most loses its oldest one

	mu   sync.Mutex
	held map[string][]*sharedConn // oldest first
	all  int                      // but root's
}

func newPlaces(most, mostAll int, yield bool) *places {
	return &places{most: most, mostAll: mostAll, yield: yield, held: map[string][]*sharedConn{}}
}

// rootShare is the name of the share that does not count against the sum.
const rootShare = "uid 0"

// shareOf names the share of a connection: a user, an address, or the network of an address that has many of its own.
func shareOf(c net.Conn, p peer) string {
	if p.local {
		return fmt.Sprintf("uid %d", p.uid)
	}
	addr, err := netip.ParseAddrPort(c.RemoteAddr().String())
	ip := addr.Addr().Unmap().WithZone("")
	switch {
	case err != nil:
		return "unknown peers"
	case ip.IsLoopback():
		return "this host"
	case ip.Is6():
		const subnet = 64 // which one host may have to itself
		return netip.PrefixFrom(ip, subnet).Masked().String()
	}
	return ip.String()
}

// Accept returns the next connection that is within its peer's share.
func (l *shared) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		p := identify(c)
		one := &sharedConn{Conn: c, peer: p, share: shareOf(c, p), streams: l.streams, in: l.requests}
		if ok, _ := l.requests.take(one); ok {
			return one, nil
		}
		l.refuse(c, one.share)
	}
}

// take gives a connection a place if there is one. Another that lost its place for it is to be closed.
func (p *places) take(c *sharedConn) (ok bool, lost *sharedConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	mine := len(p.held[c.share])
	if mine >= p.most {
		return false, nil
	}
	if c.share != rootShare && p.all >= p.mostAll {
		if lost = p.oldestOfMost(mine + 1); lost == nil {
			return false, nil
		}
		p.remove(lost)
	}
	p.held[c.share] = append(p.held[c.share], c)
	if c.share != rootShare {
		p.all++
	}
	return true, lost
}

// oldestOfMost is the oldest connection of the share that has the most, nil where none has more than n or none has to yield.
func (p *places) oldestOfMost(n int) (oldest *sharedConn) {
	if !p.yield {
		return nil
	}
	for share, list := range p.held {
		if share != rootShare && len(list) > n {
			n, oldest = len(list), list[0]
		}
	}
	return oldest
}

func (p *places) give(c *sharedConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(c)
}

// remove takes the place of a connection away, if it has one.
func (p *places) remove(c *sharedConn) {
	list := p.held[c.share]
	i := slices.Index(list, c)
	if i < 0 {
		return
	}
	if p.held[c.share] = slices.Delete(list, i, i+1); len(list) == 1 {
		delete(p.held, c.share)
	}
	if c.share != rootShare {
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
	ok, lost := c.toStream()
	if lost != nil {
		_ = lost.Close() // its reader connects again, and may be refused then
	}
	return ok
}

func (c *sharedConn) toStream() (ok bool, lost *sharedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.in {
	case nil:
		return false, nil
	case c.streams:
		return true, nil
	}
	if ok, lost = c.streams.take(c); ok {
		c.in.give(c)
		c.in = c.streams
	}
	return ok, lost
}

// Close gives the place back once.
func (c *sharedConn) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in != nil {
		c.in.give(c)
		c.in = nil
	}
	return err
}
