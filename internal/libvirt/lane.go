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
	shut  func(*lv.Connect)
	slots chan struct{}
	wg    sync.WaitGroup // connections in use or being closed

	mu     sync.Mutex
	idle   []*wire
	closed bool
}

// wire is a connection and the domains looked up on it. One call at a time uses it.
type wire struct {
	*lv.Connect
	doms map[model.VMID]*lv.Domain
}

// maxHandles bounds the domains that a wire remembers.
const maxHandles = 4096

// domain returns a handle that stays with the wire; libvirt finds the domain by its
// UUID, so that one lookup serves for all its life and for its next start. Only its
// numeric ID grows stale.
func (w *wire) domain(vm model.VMID) (*lv.Domain, error) {
	if d := w.doms[vm]; d != nil {
		return d, nil
	}
	d, err := w.LookupDomainByUUIDString(string(vm))
	if err != nil {
		return nil, err
	}
	if len(w.doms) >= maxHandles {
		w.forgetAll()
	}
	if w.doms == nil {
		w.doms = map[model.VMID]*lv.Domain{}
	}
	w.doms[vm] = d
	return d, nil
}

func (w *wire) forget(vm model.VMID) {
	if d := w.doms[vm]; d != nil {
		_ = d.Free()
		delete(w.doms, vm)
	}
}

func (w *wire) forgetAll() {
	for vm := range w.doms {
		w.forget(vm)
	}
}

func newLane(limit int, open func() (*lv.Connect, error)) *lane {
	return &lane{open: open, shut: func(c *lv.Connect) { _, _ = c.Close() }, slots: make(chan struct{}, limit)}
}

var errClosed = errors.New("the connection to libvirt was closed")

// take finds or opens a connection. Its user gives it back.
func (l *lane) take() (*wire, error) {
	w, err := l.reuse()
	if w != nil || err != nil {
		return w, err
	}
	c, err := l.open()
	if err != nil {
		l.wg.Done()
		return nil, fmt.Errorf("open a connection: %w", err)
	}
	return &wire{Connect: c}, nil
}

// drop closes a connection. Its handles hold references to it.
func (l *lane) drop(w *wire) {
	w.forgetAll()
	l.shut(w.Connect)
}

// reuse takes an idle connection, if there is one that is alive.
func (l *lane) reuse() (*wire, error) {
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

func (l *lane) give(c *wire) {
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

func alive(c *wire) bool {
	ok, err := c.IsAlive()
	return err != nil || ok
}

// enter passes the gate and takes a slot.
func (l *lane) enter(ctx context.Context, vm model.VMID) error {
	if err := l.gate.enter(vm); err != nil {
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

// onWire makes a call with one of the lane's connections, on behalf of vm.
func onWire[T any](ctx context.Context, l *lane, vm model.VMID, op string, fn func(*wire) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	if err := l.enter(ctx, vm); err != nil {
		return zero, err
	}
	return call(ctx, &l.gate, vm, op, func() (T, error) {
		defer func() { <-l.slots }()
		w, err := l.take()
		if err != nil {
			return zero, err
		}
		defer l.give(w)
		return fn(w)
	})
}

// onConn is onWire for calls on the connection itself.
func onConn[T any](ctx context.Context, l *lane, vm model.VMID, op string, fn func(*lv.Connect) (T, error)) (T, error) {
	return onWire(ctx, l, vm, op, func(w *wire) (T, error) { return fn(w.Connect) })
}

// onDomain is onWire with the domain looked up afresh.
func onDomain[T any](ctx context.Context, l *lane, vm model.VMID, op string, fn func(*lv.Domain) (T, error)) (T, error) {
	return onWire(ctx, l, vm, op, func(w *wire) (T, error) {
		w.forget(vm)
		return onHandle(w, vm, fn)
	})
}

// onKnown is onWire with the domain looked up once for many calls.
func onKnown[T any](ctx context.Context, l *lane, vm model.VMID, op string, fn func(*lv.Domain) (T, error)) (T, error) {
	return onWire(ctx, l, vm, op, func(w *wire) (T, error) { return onHandle(w, vm, fn) })
}

func onHandle[T any](w *wire, vm model.VMID, fn func(*lv.Domain) (T, error)) (T, error) {
	d, err := w.domain(vm)
	if err != nil {
		var zero T
		return zero, err
	}
	out, err := fn(d)
	if err != nil {
		w.forget(vm)
	}
	return out, err
}
