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

// Limits on the connections of one listener. A caller with read access must not be able to exhaust the daemon's file
// descriptors or the slots of others.
const (
	perPeer = 16 // of one user
	perAll  = 64 // of all users except root, who has perPeer in addition

	perAddress = 64 // of one TCP address, which many clients may share
	perNetwork = 256
)

// Limits on event streams, which last for hours and cost little. They have slots of their own, so that open pages leave
// room for requests. When all are taken, the user with the most streams loses one to a user with fewer.
const (
	streamsPerPeer = 64 // of one user, or of one address
	streamsPerAll  = 128
)

// fairListener limits each peer to its share of the connections. Connections beyond the share are refused at once: letting
// them wait, as a listener with a plain limit does, would block everybody queued behind them.
type fairListener struct {
	net.Listener
	requests, streams *slots

	refusals chan struct{} // one element per refusal in progress
}

func newFairListener(l net.Listener, most, mostAll int) *fairListener {
	return &fairListener{
		Listener: l, requests: newSlots(most, mostAll, false), streams: newSlots(streamsPerPeer, streamsPerAll, true),
		refusals: make(chan struct{}, maxRefusals),
	}
}

// slots holds connections, grouped by share.
type slots struct {
	most, mostAll int  // of one peer, of all except root
	yield         bool // when all slots are taken, the share with the most loses its oldest connection

	mu   sync.Mutex
	held map[string][]*slotConn // oldest first
	all  int                    // except root's
}

func newSlots(most, mostAll int, yield bool) *slots {
	return &slots{most: most, mostAll: mostAll, yield: yield, held: map[string][]*slotConn{}}
}

// rootShare is the name of the share that does not count against the total.
const rootShare = "uid 0"

// shareOf names the share of a connection: a user, an address, or the /64 network of an IPv6 address.
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
		const subnet = 64 // one host may own a whole /64
		return netip.PrefixFrom(ip, subnet).Masked().String()
	}
	return ip.String()
}

// Accept returns the next connection that is within its peer's share.
func (l *fairListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		p := identify(c)
		conn := &slotConn{Conn: c, peer: p, share: shareOf(c, p), streams: l.streams, in: l.requests}
		if ok, _ := l.requests.acquire(conn); ok {
			return conn, nil
		}
		l.refuse(c, conn.share)
	}
}

// acquire gives a connection a slot if one is available. The caller must close lost, the connection that lost its slot for it.
func (s *slots) acquire(c *slotConn) (ok bool, lost *slotConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := len(s.held[c.share])
	if mine >= s.most {
		return false, nil
	}
	if c.share != rootShare && s.all >= s.mostAll {
		if lost = s.oldestOfMost(mine + 1); lost == nil {
			return false, nil
		}
		s.remove(lost)
	}
	s.held[c.share] = append(s.held[c.share], c)
	if c.share != rootShare {
		s.all++
	}
	return true, lost
}

// oldestOfMost returns the oldest connection of the share with the most, or nil if none has more than n or yielding is off.
func (s *slots) oldestOfMost(n int) (oldest *slotConn) {
	if !s.yield {
		return nil
	}
	for share, list := range s.held {
		if share != rootShare && len(list) > n {
			n, oldest = len(list), list[0]
		}
	}
	return oldest
}

func (s *slots) release(c *slotConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(c)
}

// remove frees the slot of a connection, if it has one.
func (s *slots) remove(c *slotConn) {
	list := s.held[c.share]
	i := slices.Index(list, c)
	if i < 0 {
		return
	}
	if s.held[c.share] = slices.Delete(list, i, i+1); len(list) == 1 {
		delete(s.held, c.share)
	}
	if c.share != rootShare {
		s.all--
	}
}

// A refused client has refusalTimeout to send the request that is answered with the refusal. At most maxRefusals clients are
// answered at a time; the connections of others are just closed.
const (
	refusalTimeout = 200 * time.Millisecond
	maxRefusals    = 32
)

// refuse closes a connection and sends the reason, unless too many refusals are in progress.
func (l *fairListener) refuse(c net.Conn, name string) {
	select {
	case l.refusals <- struct{}{}:
	default:
		_ = c.Close()
		return
	}
	go func() {
		defer func() { _ = c.Close(); <-l.refusals }()
		_ = c.SetDeadline(time.Now().Add(refusalTimeout))
		if _, err := c.Read(make([]byte, maxHeader)); err != nil {
			return
		}
		body, _ := json.Marshal(tooMany("connections", name))
		_, _ = fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}()
}

func tooMany(what, name string) *api.Error {
	return &api.Error{Text: "too many " + what + " of " + name + ", or in total", Remedy: "close some and try again"}
}

// slotConn frees its slot when it closes.
type slotConn struct {
	net.Conn
	peer    peer
	share   string
	streams *slots

	mu sync.Mutex
	in *slots // where it holds its slot; nil: closed
}

// stream moves a connection to the stream slots for the rest of its life. If no slot is free it returns false, and the
// connection stays where it is.
func (c *slotConn) stream() bool {
	ok, lost := c.toStream()
	if lost != nil {
		_ = lost.Close() // its client reconnects, and may then be refused
	}
	return ok
}

func (c *slotConn) toStream() (ok bool, lost *slotConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.in {
	case nil:
		return false, nil
	case c.streams:
		return true, nil
	}
	if ok, lost = c.streams.acquire(c); ok {
		c.in.release(c)
		c.in = c.streams
	}
	return ok, lost
}

// Close closes the connection and frees its slot once.
func (c *slotConn) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in != nil {
		c.in.release(c)
		c.in = nil
	}
	return err
}
