package libvirt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// session is one lifetime of the connection, from connecting to losing it.
type session struct {
	events  *pool // the connection that delivers events; it also carries pings
	queries *pool // inventory and statistics: calls that do not wait for a QEMU
	hotplug *pool // hot-plug and job queries: calls that may wait for one
	agents  *pool // guest agents

	ctx     context.Context // ends with the session
	end     context.CancelCauseFunc
	pending *pending
	wg      sync.WaitGroup // goroutines of the session, all bounded by ctx

	mu     sync.Mutex // held while a connection is opened
	closed bool       // no more connections are opened
}

// The pools' connections. Calls that may get stuck must leave most of libvirtd's 20 workers free.
const (
	queryConns   = 4
	hotplugConns = 6
	agentConns   = 6
)

// connect opens the session and registers for events, so that no change is missed between the first reading of the domains and the events
// that follow. If libvirtd accepts the connection but does not answer, connect waits.
func (c *Conn) connect(ctx context.Context) (*session, error) {
	s := &session{pending: newPending()}
	s.ctx, s.end = context.WithCancelCause(ctx)
	open := func() (*client, error) { return s.open(c.at) }
	conn, err := open()
	if err != nil {
		s.close()
		return nil, fail("connect to", c.o.URI, err)
	}
	s.events = newPool(1, func() (*client, error) { return nil, ErrDisconnected })
	s.events.give(conn)
	s.queries, s.hotplug, s.agents = newPool(queryConns, open), newPool(hotplugConns, open), newPool(agentConns, open)
	s.wg.Go(func() {
		<-conn.conn.gone
		s.end(errors.New("the connection was lost: libvirtd closed it, or stopped"))
	})
	if err := c.register(s, conn); err != nil {
		s.close()
		return nil, fail("register for events of", c.o.URI, conn.explain(err))
	}
	return s, nil
}

func (s *session) pools() []*pool { return []*pool{s.events, s.queries, s.hotplug, s.agents} }

// errClosed is the reason of a session that was closed rather than lost.
var errClosed = errors.New("the connection to libvirt was closed")

// open opens a connection that is closed when the session ends.
func (s *session) open(at address) (*client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	c, err := dial(s.ctx, at)
	if err == nil {
		s.wg.Go(func() { c.closeAfter(s.ctx) })
	}
	return c, err
}

// close ends a session and its connections. Calls in flight fail.
func (s *session) close() {
	s.end(errClosed)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wg.Wait()
}

// ping calls libvirtd periodically until the session ends, and ends the session if there is no answer. It does not use libvirt's keepalive
// protocol: libvirtd uses that only with clients that request it.
func (c *Conn) ping(s *session) {
	t := time.NewTicker(c.o.Keepalive)
	defer t.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-t.C:
		}
		ctx, cancel := context.WithTimeout(s.ctx, 2*c.o.Keepalive)
		_, err := onConn(ctx, s.events, "", "ping", func(c *client) (uint64, error) { return c.ConnectGetLibVersion() })
		cancel()
		if err != nil {
			s.end(fmt.Errorf("libvirtd stopped answering: %w", plain(err)))
		}
	}
}

// gone returns why the session ended, or nil while it lives.
func (s *session) gone() error {
	if s.ctx.Err() == nil {
		return nil
	}
	return context.Cause(s.ctx)
}

// lost reports whether an error is due to the end of the session rather than to the call itself.
func (s *session) lost(err error) bool {
	return errors.Is(plain(err), ErrDisconnected) || s.gone() != nil
}
