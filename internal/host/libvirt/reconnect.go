package libvirt

import (
	"context"
	"time"

	lv "github.com/digitalocean/go-libvirt"
	"golang.org/x/sync/errgroup"

	"sluice/internal/base/reconcile"
	"sluice/internal/base/sleep"
	"sluice/internal/model"
)

// reconnect maintains a session until ctx ends. It sends the result of the first attempt to first.
func (c *Conn) reconnect(ctx context.Context, first chan<- error) {
	defer close(c.done)
	report := func(err error) {
		select {
		case first <- err:
		default:
		}
	}
	backoff := reconcile.Backoff{First: c.o.MinBackoff, Most: c.o.MaxBackoff}
	for failures := 1; ; failures++ {
		start := time.Now()
		err := c.runSession(ctx, report)
		c.down(err, ctx.Err() != nil)
		report(err)
		if time.Since(start) > c.o.MaxBackoff {
			failures = 1
		}
		if sleep.For(ctx, backoff.After(failures)) != nil {
			return
		}
	}
}

// runSession runs one session: connect, read everything, then follow events until the session is lost.
func (c *Conn) runSession(ctx context.Context, up func(error)) error {
	s, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	s.wg.Go(func() { c.ping(s) })
	if err := c.resync(s); err != nil {
		return err
	}
	c.up(s)
	up(nil)
	return c.follow(s)
}

func (c *Conn) follow(s *session) error {
	full, watch := time.NewTicker(c.o.Resync), time.NewTicker(c.o.Watch/5)
	defer full.Stop()
	defer watch.Stop()
	for n := 1; ; {
		var err error
		select {
		case <-s.ctx.Done():
			return s.gone()
		case <-s.pending.wake:
			err = c.lookAgain(s, s.pending.take())
		case <-full.C:
			err = c.resync(s)
		case <-watch.C:
			c.checkJobs(s, n%5 == 0)
			for _, vm := range c.inv.withFunctions() {
				s.pending.add(vm, cause{}) // libvirt sends no event for a changed link
			}
			for _, vm := range c.inv.unread() {
				s.pending.add(vm, cause{job: true}) // nor when a QEMU answers again
			}
			n++
		}
		if err != nil {
			return err
		}
	}
}

// resync reads all active domains and drops the others.
func (c *Conn) resync(s *session) error {
	ctx, cancel := context.WithTimeout(s.ctx, c.o.CallLimit)
	defer cancel()
	ids, err := onConn(ctx, s.queries, "", "list domains", listActive)
	if err != nil {
		return fail("list domains of", c.o.URI, err)
	}
	all := make(map[model.VMID]cause, len(ids))
	for _, id := range ids {
		all[id] = cause{job: true}
	}
	for _, id := range c.inv.without(all) {
		c.forget(id)
	}
	return c.lookAgain(s, all)
}

func listActive(c *client) ([]model.VMID, error) {
	doms, _, err := c.ConnectListAllDomains(1, lv.ConnectListDomainsActive)
	if err != nil {
		return nil, err
	}
	ids := make([]model.VMID, 0, len(doms))
	for _, d := range doms {
		ids = append(ids, vmID(d))
	}
	return ids, nil
}

// lookAgain reads the given domains, several at a time.
func (c *Conn) lookAgain(s *session, vms map[model.VMID]cause) error {
	var g errgroup.Group
	g.SetLimit(queryConns - 1) // leaves one for statistics
	for vm, w := range vms {
		g.Go(func() error { return c.look(s, vm, w) })
	}
	return g.Wait()
}

// look reads one domain into the inventory. It fails only if the session is lost.
func (c *Conn) look(s *session, vm model.VMID, w cause) error {
	ctx, cancel := context.WithTimeout(s.ctx, c.o.CallLimit)
	defer cancel()
	r, err := c.read(ctx, s, vm)
	switch {
	case err == nil && r.active():
		c.inv.put(r, w.booted, time.Now())
		if w.job {
			c.checkJob(s, vm)
		}
	case err == nil || isGone(err):
		c.forget(vm)
	case s.lost(err):
		return err
	default:
		c.inv.unreadable(vm, err)
	}
	return nil
}

// forget drops a domain that is no longer active.
func (c *Conn) forget(vm model.VMID) {
	c.unplugs.drop(vm)
	c.inv.drop(vm)
}
