package libvirt

import (
	"context"
	"errors"
	"fmt"
	"sync"

	lv "libvirt.org/go/libvirt"

	"sluice/internal/model"
)

// perConn is how many requests may be under way on one connection: libvirtd serves
// five of a client at a time and then stops reading, keepalive included.
const perConn = 4

// lane is a set of connections for calls of one sort, so that those that may take
// long (hot-plug, guest agents) do not hold up those that must not (inventory,
// statistics). It opens connections as they are needed, up to a limit.
type lane struct {
	gate  gate
	open  func() (*lv.Connect, error)
	slots chan struct{}

	mu     sync.Mutex
	conns  []*laneConn
	closed bool
}

type laneConn struct {
	c    *lv.Connect
	busy int
}

func newLane(limit int, open func() (*lv.Connect, error)) *lane {
	return &lane{open: open, slots: make(chan struct{}, limit*perConn)}
}

var errLaneClosed = errors.New("the connection to libvirt was closed")

// take finds or opens a connection with room. The caller holds a slot, so
// there is one, or room for one.
func (l *lane) take() (*laneConn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errLaneClosed
	}
	for _, lc := range l.conns {
		if lc.busy < perConn && alive(lc.c) {
			lc.busy++
			return lc, nil
		}
	}
	return l.grow()
}

func (l *lane) grow() (*laneConn, error) {
	l.prune()
	l.mu.Unlock()
	c, err := l.open()
	l.mu.Lock()
	if err != nil {
		return nil, fmt.Errorf("open another connection: %w", err)
	}
	if l.closed {
		_, _ = c.Close()
		return nil, errLaneClosed
	}
	lc := &laneConn{c: c, busy: 1}
	l.conns = append(l.conns, lc)
	return lc, nil
}

// prune forgets dead connections; the last call on one closes it.
func (l *lane) prune() {
	kept := l.conns[:0]
	for _, lc := range l.conns {
		switch {
		case alive(lc.c):
			kept = append(kept, lc)
		case lc.busy == 0:
			_, _ = lc.c.Close()
		}
	}
	l.conns = kept
}

func (l *lane) give(lc *laneConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lc.busy--
	if lc.busy == 0 && (l.closed || !l.has(lc)) {
		_, _ = lc.c.Close()
	}
}

func (l *lane) has(lc *laneConn) bool {
	for _, o := range l.conns {
		if o == lc {
			return true
		}
	}
	return false
}

// close closes idle connections; one with a call on it is closed when that returns.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, lc := range l.conns {
		if lc.busy == 0 {
			_, _ = lc.c.Close()
		}
	}
}

func alive(c *lv.Connect) bool {
	ok, err := c.IsAlive()
	return err != nil || ok
}

// enter passes the gate and takes a slot.
func (l *lane) enter(ctx context.Context, vm model.VMID, op string) error {
	if err := l.gate.enter(vm, op); err != nil {
		return err
	}
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		l.gate.leave(vm, false)
		return fmt.Errorf("waited behind %d other libvirt calls: %w", cap(l.slots), ctx.Err())
	}
}

// onConn makes a call with one of the lane's connections, on behalf of vm.
func onConn[T any](ctx context.Context, l *lane, vm model.VMID, op string, fn func(*lv.Connect) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	if err := l.enter(ctx, vm, op); err != nil {
		return zero, err
	}
	return call(ctx, &l.gate, vm, op, func() (T, error) {
		defer func() { <-l.slots }()
		lc, err := l.take()
		if err != nil {
			return zero, err
		}
		defer l.give(lc)
		return fn(lc.c)
	})
}

// onDomain is onConn with the domain looked up.
func onDomain[T any](ctx context.Context, l *lane, vm model.VMID, op string, fn func(*lv.Domain) (T, error)) (T, error) {
	return onConn(ctx, l, vm, op, func(c *lv.Connect) (T, error) {
		d, err := c.LookupDomainByUUIDString(string(vm))
		if err != nil {
			var zero T
			return zero, err
		}
		defer func() { _ = d.Free() }()
		return fn(d)
	})
}
