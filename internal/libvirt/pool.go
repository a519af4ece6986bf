package libvirt

import (
	"context"
	"errors"
	"fmt"
	"sync"

	lv "libvirt.org/go/libvirt"

	"sluice/internal/model"
)

// pool holds connections for calls of one sort, so that those that may take
// long (hot-plug, guest agents) do not hold up those that must not (inventory,
// statistics). It opens connections as they are needed, up to a limit.
//
// A connection carries one call at a time. libvirt allows more, but where its client
// lacks the fix for CVE-2024-4418 (Debian 12 has it not), a connection that
// dies under several calls crashes the process or leaves some of them waiting for ever.
type pool struct {
	calls limiter
	open  func() (*lv.Connect, error)
	shut  func(*lv.Connect)
	slots chan struct{}
	wg    sync.WaitGroup // connections in use or being closed

	mu     sync.Mutex
	idle   []*pooled
	closed bool
}

// pooled is a connection and the domains looked up on it. One call at a time uses it.
type pooled struct {
	*lv.Connect
	doms map[model.VMID]*lv.Domain
}

// maxHandles bounds the domains that a pooled connection remembers.
const maxHandles = 4096

// domain returns a handle that stays with the connection; libvirt finds the domain by its
// UUID, so that one lookup serves for all its life and for its next start. Only its
// numeric ID grows stale.
func (c *pooled) domain(vm model.VMID) (*lv.Domain, error) {
	if d := c.doms[vm]; d != nil {
		return d, nil
	}
	d, err := c.LookupDomainByUUIDString(string(vm))
	if err != nil {
		return nil, err
	}
	if len(c.doms) >= maxHandles {
		c.forgetAll()
	}
	if c.doms == nil {
		c.doms = map[model.VMID]*lv.Domain{}
	}
	c.doms[vm] = d
	return d, nil
}

func (c *pooled) forget(vm model.VMID) {
	if d := c.doms[vm]; d != nil {
		_ = d.Free()
		delete(c.doms, vm)
	}
}

func (c *pooled) forgetAll() {
	for vm := range c.doms {
		c.forget(vm)
	}
}

func newPool(limit int, open func() (*lv.Connect, error)) *pool {
	return &pool{open: open, shut: func(c *lv.Connect) { _, _ = c.Close() }, slots: make(chan struct{}, limit)}
}

var errClosed = errors.New("the connection to libvirt was closed")

// take finds or opens a connection. Its user gives it back.
func (p *pool) take() (*pooled, error) {
	c, err := p.reuse()
	if c != nil || err != nil {
		return c, err
	}
	opened, err := p.open()
	if err != nil {
		p.wg.Done()
		return nil, fmt.Errorf("open a connection: %w", err)
	}
	return &pooled{Connect: opened}, nil
}

// drop closes a connection. Its handles hold references to it.
func (p *pool) drop(c *pooled) {
	c.forgetAll()
	p.shut(c.Connect)
}

// reuse takes an idle connection, if there is one that is alive.
func (p *pool) reuse() (*pooled, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	p.wg.Add(1)
	for len(p.idle) > 0 {
		c := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if alive(c) {
			return c, nil
		}
		p.wg.Go(func() { p.drop(c) })
	}
	return nil, nil
}

func (p *pool) give(c *pooled) {
	defer p.wg.Done()
	p.mu.Lock()
	keep := !p.closed && alive(c)
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep {
		p.drop(c)
	}
}

// close closes idle connections without waiting; those in use are closed when they
// are given back.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		p.wg.Go(func() { p.drop(c) })
	}
	p.idle = nil
}

func alive(c *pooled) bool {
	ok, err := c.IsAlive()
	return err != nil || ok
}

// enter passes the limiter and takes a slot.
func (p *pool) enter(ctx context.Context, vm model.VMID) error {
	if err := p.calls.enter(vm); err != nil {
		return err
	}
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		p.calls.leave(vm, false)
		return fmt.Errorf("waited behind %d other libvirt calls: %w", cap(p.slots), ctx.Err())
	}
}

// onPooled makes a call with one of the pool's connections, on behalf of vm.
func onPooled[T any](ctx context.Context, p *pool, vm model.VMID, op string, fn func(*pooled) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	if err := p.enter(ctx, vm); err != nil {
		return zero, err
	}
	return call(ctx, &p.calls, vm, op, func() (T, error) {
		defer func() { <-p.slots }()
		c, err := p.take()
		if err != nil {
			return zero, err
		}
		defer p.give(c)
		return fn(c)
	})
}

// onConn is onPooled for calls on the connection itself.
func onConn[T any](ctx context.Context, p *pool, vm model.VMID, op string, fn func(*lv.Connect) (T, error)) (T, error) {
	return onPooled(ctx, p, vm, op, func(c *pooled) (T, error) { return fn(c.Connect) })
}

// onDomain is onPooled with the domain looked up afresh.
func onDomain[T any](ctx context.Context, p *pool, vm model.VMID, op string, fn func(*lv.Domain) (T, error)) (T, error) {
	return onPooled(ctx, p, vm, op, func(c *pooled) (T, error) {
		c.forget(vm)
		return onHandle(c, vm, fn)
	})
}

// onKnown is onPooled with the domain looked up once for many calls.
func onKnown[T any](ctx context.Context, p *pool, vm model.VMID, op string, fn func(*lv.Domain) (T, error)) (T, error) {
	return onPooled(ctx, p, vm, op, func(c *pooled) (T, error) { return onHandle(c, vm, fn) })
}

func onHandle[T any](c *pooled, vm model.VMID, fn func(*lv.Domain) (T, error)) (T, error) {
	d, err := c.domain(vm)
	if err != nil {
		var zero T
		return zero, err
	}
	out, err := fn(d)
	if err != nil {
		c.forget(vm)
	}
	return out, err
}
