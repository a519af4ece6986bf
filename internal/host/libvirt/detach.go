package libvirt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/model"
)

// device names a device of a domain by its alias.
type device struct {
	vm    model.VMID
	alias string
}

// outcome is the result so far of a detach request.
type outcome int

const (
	asked   outcome = iota
	removed         // DEVICE_REMOVED
	refused         // DEVICE_REMOVAL_FAILED
)

// unplugs records the events about devices whose detach was requested, because an event may arrive before anybody waits for it.
type unplugs struct {
	mu  sync.Mutex
	all map[device]*unplug
}

type unplug struct {
	out  outcome
	wake chan struct{} // closed when out changes, then replaced
}

// begin records a new request: an earlier refusal no longer counts.
func (u *unplugs) begin(d device) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.get(d).set(asked)
}

func (u *unplugs) get(d device) *unplug {
	if u.all == nil {
		u.all = map[device]*unplug{}
	}
	if u.all[d] == nil {
		u.all[d] = &unplug{wake: make(chan struct{})}
	}
	return u.all[d]
}

func (p *unplug) set(o outcome) {
	p.out = o
	close(p.wake)
	p.wake = make(chan struct{})
}

// tell records an event. Events about devices that were not requested through this Conn are dropped.
func (u *unplugs) tell(d device, o outcome) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.all[d]
	if p == nil {
		return
	}
	p.set(o)
	if o == removed {
		delete(u.all, d)
	}
}

// state returns the outcome so far and a channel that is closed when it changes.
func (u *unplugs) state(d device) (outcome, <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.get(d)
	return p.out, p.wake
}

// end drops the state of a device that is gone.
func (u *unplugs) end(d device) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, d)
}

// drop wakes all waiters for devices of a domain that has stopped, and drops their state.
func (u *unplugs) drop(vm model.VMID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for d, p := range u.all {
		if d.vm == vm {
			p.set(removed)
			delete(u.all, d)
		}
	}
}

// Detach asks the guest to release the device with that alias and returns without waiting for it. It is idempotent, and re-sends a request
// that was lost. It succeeds if the device does not exist.
func (c *Conn) Detach(ctx context.Context, vm model.VMID, alias string) (err error) {
	defer func() { err = fail("detach "+alias+" from", c.inv.subject(vm), err) }()
	dev := device{vm, alias}
	s, err := c.session()
	if err != nil {
		return err
	}
	there, err := c.present(ctx, s, dev)
	if err != nil {
		return err
	}
	// If the device is absent, an attach may still be in flight, for example from a process that was killed. Libvirt executes the detach
	// after it, so the request is sent in any case.
	if there {
		if err := c.fit(ctx, s, dev.vm); err != nil {
			return err
		}
	}
	c.unplugs.begin(dev)
	_, err = onDomain(ctx, s.hotplug, dev.vm, "detach device", func(c *client, d lv.Domain) (struct{}, error) {
		return struct{}{}, c.DomainDetachDeviceAlias(d, dev.alias, uint32(lv.DomainDeviceModifyLive))
	})
	if errors.Is(plain(err), errPending) {
		return nil
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	if there, again := c.present(ctx, s, dev); again == nil && !there {
		return nil
	}
	return err
}

func (c *Conn) present(ctx context.Context, s *session, dev device) (bool, error) {
	d, err := c.fresh(ctx, s, dev.vm)
	if err != nil {
		return false, err
	}
	return d.has(dev.alias), nil
}

func (d *Domain) has(alias string) bool { return slices.Contains(d.aliases, alias) }

// recheck is how often WaitGone checks the domain itself, in case an event was lost.
const recheck = time.Second

// WaitGone waits until the device with that alias is gone from the domain. It fails with model.ErrGuest if the guest refused or did nothing
// before ctx ended, and with model.ErrGone if the domain stopped.
func (c *Conn) WaitGone(ctx context.Context, vm model.VMID, alias string) error {
	dev := device{vm, alias}
	err := c.waitGone(ctx, dev)
	if err == nil || errors.Is(err, model.ErrGone) {
		c.unplugs.end(dev)
	}
	return fail("wait until "+alias+" is gone from", c.inv.subject(vm), err)
}

func (c *Conn) waitGone(ctx context.Context, dev device) error {
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for {
		out, wake := c.unplugs.state(dev)
		there, err := c.stillThere(ctx, dev)
		switch {
		case err != nil:
			return err
		case !there:
			return nil
		case out == refused:
			return fmt.Errorf("%w: it refused to give the device up", model.ErrGuest)
		}
		select {
		case <-wake:
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: it has not given the device up: %w", model.ErrGuest, ctx.Err())
		}
	}
}

// stillThere checks the live XML. While libvirt is unreachable or does not answer, the device counts as present, so the wait continues
// until ctx ends.
func (c *Conn) stillThere(ctx context.Context, dev device) (bool, error) {
	s, err := c.session()
	if err != nil {
		return true, nil
	}
	there, err := c.present(ctx, s, dev)
	switch {
	case err == nil:
		return there, nil
	case isGone(err):
		return false, err
	case ctx.Err() != nil, s.lost(err), errors.Is(err, ErrStuck):
		return true, nil
	}
	return true, err
}
