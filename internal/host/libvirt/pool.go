package libvirt

import (
	"context"
	"fmt"
	"sync"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/host/libvirt/qmp"
	"sluice/internal/model"
)

// pool holds connections for calls of one kind, so that slow ones (hot-plug, guest agents) do not delay those that must be fast (inventory,
// statistics). It opens connections as needed, up to a limit, and does not close them: they end with their session.
//
// A connection carries one call at a time: libvirtd serves only a few concurrent calls of one connection, so a stuck call would delay those
// behind it.
type pool struct {
	calls limiter
	open  func() (*client, error)
	slots chan struct{}

	mu   sync.Mutex
	idle []*client
}

func newPool(limit int, open func() (*client, error)) *pool {
	return &pool{open: open, slots: make(chan struct{}, limit)}
}

// take returns an idle connection or opens one. The caller returns it with give.
func (p *pool) take() (*client, error) {
	if c := p.reuse(); c != nil {
		return c, nil
	}
	c, err := p.open()
	if err != nil {
		return nil, fmt.Errorf("open a connection: %w", err)
	}
	return c, nil
}

// reuse returns an idle connection that is alive, or nil.
func (p *pool) reuse() *client {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		c := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if c.alive() {
			return c
		}
	}
	return nil
}

func (p *pool) give(c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.alive() {
		p.idle = append(p.idle, c)
	}
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
		p.calls.exit(vm, false)
		return fmt.Errorf("waited behind %d other libvirt calls: %w", cap(p.slots), ctx.Err())
	}
}

// onConn makes a call on behalf of vm on one of the pool's connections.
func onConn[T any](ctx context.Context, p *pool, vm model.VMID, op string, fn func(*client) (T, error)) (T, error) {
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
		out, err := fn(c)
		return out, c.explain(err)
	})
}

// onDomain is onConn for calls on a domain.
func onDomain[T any](ctx context.Context, p *pool, vm model.VMID, op string, fn func(*client, lv.Domain) (T, error)) (T, error) {
	return onConn(ctx, p, vm, op, func(c *client) (T, error) {
		d, err := handle(vm)
		if err != nil {
			var zero T
			return zero, err
		}
		return fn(c, d)
	})
}

// monitor asks the QEMU of a VM through libvirt, which marks the VM as tainted by that.
func (s *session) monitor(ctx context.Context, vm model.VMID) qmp.Ask {
	return func(command string) (string, error) {
		return onDomain(ctx, s.hotplug, vm, "ask QEMU", func(c *client, d lv.Domain) (string, error) {
			return c.QEMUDomainMonitorCommand(d, command, 0)
		})
	}
}
