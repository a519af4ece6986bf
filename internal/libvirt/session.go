package libvirt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lv "libvirt.org/go/libvirt"

	"sluice/internal/model"
)

// session is one life of the connection, from connecting to losing it.
type session struct {
	events  *pool // the one connection that events come through; also carries pings
	queries *pool // inventory and statistics: calls that do not wait for a QEMU
	hotplug *pool // hot-plug and job queries: calls that may
	agents  *pool // guest agents

	ctx     context.Context // ends with the session
	end     context.CancelCauseFunc
	pending *pending
	wg      sync.WaitGroup // goroutines of the session, all bounded by ctx
}

// The pools' connections. Calls that may get stuck must leave most of libvirtd's 20
// workers free.
const (
	queryConns   = 4
	hotplugConns = 6
	agentConns   = 6
)

// connect opens the session and registers for events, so that nothing is missed
// between the first reading of the domains and the events that follow. While
// libvirtd accepts but does not answer, the one attempt waits: more would pile up.
func (c *Conn) connect(ctx context.Context) (*session, error) {
	open := func() (*lv.Connect, error) { return openConn(c.o.URI, c.o.Keepalive) }
	conn, err := openWithin(ctx, open)
	if err != nil {
		return nil, fail("connect to", c.o.URI, err)
	}
	s := &session{
		pending: newPending(),
		events:  newPool(1, func() (*lv.Connect, error) { return nil, ErrDisconnected }),
		queries: newPool(queryConns, open), hotplug: newPool(hotplugConns, open), agents: newPool(agentConns, open),
	}
	s.ctx, s.end = context.WithCancelCause(ctx)
	s.events.idle = []*pooled{{Connect: conn}}
	ids, err := c.register(s, conn)
	s.events.shut = func(conn *lv.Connect) { closeWithEvents(conn, ids) }
	if err != nil {
		s.end(err)
		s.close()
		return nil, fail("register for events of", c.o.URI, err)
	}
	return s, nil
}

func (s *session) pools() []*pool { return []*pool{s.events, s.queries, s.hotplug, s.agents} }

// close ends a session without waiting for calls that are stuck; left does.
func (s *session) close() {
	s.end(errClosed)
	s.wg.Wait()
	for _, l := range s.pools() {
		l.close()
	}
}

// left waits until no connection of the session is open any more.
func (s *session) left() {
	for _, l := range s.pools() {
		l.wg.Wait()
	}
}

// closeWithEvents closes a connection that has events registered. These hold references to it.
func closeWithEvents(conn *lv.Connect, ids []int) {
	for _, id := range ids {
		_ = conn.DomainEventDeregister(id)
	}
	_ = conn.UnregisterCloseCallback()
	_, _ = conn.Close()
}

// ping asks libvirtd for a sign of life until the session ends, and ends it when
// none comes. libvirt's own keepalive does that too, but not while a call is under way
// in every version.
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
		_, err := onConn(ctx, s.events, "", "ping", (*lv.Connect).GetLibVersion)
		cancel()
		if err != nil {
			s.end(fmt.Errorf("libvirtd stopped answering: %w", plain(err)))
		}
	}
}

func openConn(uri string, keepalive time.Duration) (*lv.Connect, error) {
	conn, err := lv.NewConnect(uri)
	if err != nil {
		return nil, err
	}
	seconds := max(1, int(keepalive/time.Second))
	if err := conn.SetKeepAlive(seconds, 2); err != nil && !isCode(err, lv.ERR_NO_SUPPORT) {
		_, _ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// openWithin opens a connection and, should that outlast ctx, closes it when it
// comes after all.
func openWithin(ctx context.Context, open func() (*lv.Connect, error)) (*lv.Connect, error) {
	type result struct {
		conn *lv.Connect
		err  error
	}
	got := make(chan result)
	go func() {
		conn, err := open()
		select {
		case got <- result{conn, err}:
		case <-ctx.Done():
			if err == nil {
				_, _ = conn.Close()
			}
		}
	}()
	select {
	case r := <-got:
		return r.conn, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("libvirt did not answer in time: %w", ctx.Err())
	}
}

// register asks for all events that can change the inventory. An older libvirt may
// not know some of them; the periodic re-read then does their work.
func (c *Conn) register(s *session, conn *lv.Connect) ([]int, error) {
	err := conn.RegisterCloseCallback(func(_ *lv.Connect, why lv.ConnectCloseReason) {
		s.end(fmt.Errorf("the connection was lost: %s", closeReason(why)))
	})
	if err != nil && !isCode(err, lv.ERR_NO_SUPPORT) {
		return nil, err
	}
	var ids []int
	for _, reg := range c.registrations(s, conn) {
		id, err := reg.do()
		if err != nil && reg.must {
			return ids, err
		}
		if err != nil {
			c.o.Logger.Info("libvirt does not send an event; a slower check replaces it", "event", reg.name, "error", plain(err))
			continue
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func closeReason(r lv.ConnectCloseReason) string {
	switch r {
	case lv.CONNECT_CLOSE_REASON_EOF:
		return "libvirtd closed it, or stopped"
	case lv.CONNECT_CLOSE_REASON_KEEPALIVE:
		return "libvirtd stopped answering"
	case lv.CONNECT_CLOSE_REASON_CLIENT:
		return "closed by us"
	}
	return "an error"
}

// gone returns why the session ended, or nil while it lives.
func (s *session) gone() error {
	if s.ctx.Err() == nil {
		return nil
	}
	return context.Cause(s.ctx)
}

// domainID reads the UUID of an event's domain; the handle dies with the callback.
func domainID(d *lv.Domain) model.VMID {
	id, err := d.GetUUIDString()
	if err != nil {
		return ""
	}
	return model.VMID(id)
}

// lost says whether an error is the session's end rather than the call's own.
func (s *session) lost(err error) bool {
	return errors.Is(plain(err), ErrDisconnected) || s.gone() != nil
}
