package libvirt

import (
	"context"
	"errors"
	"fmt"
	"time"

	lv "libvirt.org/go/libvirt"

	"sluice/internal/model"
)

// session is one life of the connection, from connecting to losing it.
type session struct {
	conn *lv.Connect
	main *lane // inventory and statistics: calls that do not wait for a QEMU
	work *lane // hot-plug and job queries: calls that may
	aide *lane // guest agents

	ctx  context.Context // ends with the session
	end  context.CancelCauseFunc
	news *news
	ids  []int // event registrations
}

// The lanes' connections. Together they must stay well under libvirtd's 20 workers,
// or stuck domains could use up all of them.
const (
	workConns = 2
	aideConns = 2
)

// connect opens the session and registers for events, so that nothing is missed
// between the first reading of the domains and the events that follow.
func (c *Conn) connect(ctx context.Context) (*session, error) {
	open := func() (*lv.Connect, error) { return openConn(c.o.URI, c.o.Keepalive) }
	conn, err := openWithin(ctx, open)
	if err != nil {
		return nil, fail("connect to", c.o.URI, err)
	}
	s := &session{conn: conn, news: newNews(), work: newLane(workConns, open), aide: newLane(aideConns, open)}
	s.ctx, s.end = context.WithCancelCause(ctx)
	s.main = newLane(1, func() (*lv.Connect, error) { return nil, ErrDisconnected })
	s.main.conns = []*laneConn{{c: conn}}
	if err := c.register(s); err != nil {
		c.disconnect(s, err)
		return nil, fail("register for events of", c.o.URI, err)
	}
	return s, nil
}

// disconnect ends a session. Deregistering gives up the references that the events hold.
func (c *Conn) disconnect(s *session, why error) {
	s.end(why)
	for _, id := range s.ids {
		_ = s.conn.DomainEventDeregister(id)
	}
	_ = s.conn.UnregisterCloseCallback()
	s.main.close()
	s.work.close()
	s.aide.close()
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
func (c *Conn) register(s *session) error {
	err := s.conn.RegisterCloseCallback(func(_ *lv.Connect, why lv.ConnectCloseReason) {
		s.end(fmt.Errorf("the connection was lost: %s", closeReason(why)))
	})
	if err != nil && !isCode(err, lv.ERR_NO_SUPPORT) {
		return err
	}
	for _, reg := range c.registrations(s) {
		id, err := reg.do()
		if err != nil && reg.must {
			return err
		}
		if err != nil {
			c.o.Logger.Info("libvirt does not send an event; a slower check replaces it", "event", reg.name, "error", plain(err))
			continue
		}
		s.ids = append(s.ids, id)
	}
	return nil
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
