package libvirt

import (
	"context"
	"errors"
	"fmt"
	"sync"

	lv "libvirt.org/go/libvirt"

	"sluice/internal/model"
)

// lane is a pool of connections for calls of one sort, so that those that may take
// long (hot-plug, guest agents) do not hold up those that must not (inventory,
// statistics). It opens connections as they are needed, up to a limit.
//
// A connection carries one call at a time. libvirt allows more, but where its client
// lacks the fix for CVE-2024-4418 (Debian 12 has it not), a connection that
// dies under several calls crashes the process or leaves some of them waiting for ever.
type lane struct {
	gate  gate
	open  func() (*lv.Connect, error)
	drop  func(*lv.Connect)
	slots chan struct{}
	wg    sync.WaitGroup // connections in use or being closed

	mu     sync.Mutex
	idle   []*lv.Connect
	closed bool
}

func newLane(limit int, open func() (*lv.Connect, error)) *lane {
	return &lane{open: open, drop: func(c *lv.Connect) { _, _ = c.Close() }, slots: make(chan struct{}, limit)}
}

var errClosed = errors.New("the connection to libvirt was closed")

// take finds or opens a connection. Its user gives it back.
func (l *lane) take() (*lv.Connect, error) {
	c, err := l.reuse()
	if c != nil || err != nil {
		return c, err
	}
	if c, err = l.open(); err != nil {
		l.wg.Done()
		return nil, fmt.Errorf("open a connection: %w", err)
	}
	return c, nil
}

// reuse takes an idle connection, if there is one that is alive.
func (l *lane) reuse() (*lv.Connect, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	l.wg.Add(1)
	for len(l.idle) > 0 {
		c := l.idle[len(l.idle)-1]
		l.idle = l.idle[:len(l.idle)-1]
		if alive(c) {
			return c, nil
		}
		l.wg.Go(func() { l.drop(c) })
	}
	return nil, nil
}

func (l *lane) give(c *lv.Connect) {
	defer l.wg.Done()
	l.mu.Lock()
	keep := !l.closed && alive(c)
	if keep {
		l.idle = append(l.idle, c)
	}
	l.mu.Unlock()
	if !keep {
		l.drop(c)
	}
}

// close closes idle connections without waiting; those in use are closed when they
// are given back.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, c := range l.idle {
		l.wg.Go(func() { l.drop(c) })
	}
	l.idle = nil
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
		c, err := l.take()
		if err != nil {
			return zero, err
		}
		defer l.give(c)
		return fn(c)
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
