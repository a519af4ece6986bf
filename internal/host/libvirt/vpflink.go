package libvirt

import (
	"context"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/host/libvirt/vpfxml"
	"sluice/internal/model"
)

// SetLink sets the carrier of a function of a virtual PF on or off, only in the running VM. It is idempotent. While a link is down, QEMU
// passes no frames in either direction.
func (c *Conn) SetLink(ctx context.Context, vm model.VMID, alias string, up bool) (err error) {
	defer func() {
		state := "down"
		if up {
			state = "up"
		}
		err = fail("set the link "+state+" for "+alias+" of", c.inv.subject(vm), err)
	}()
	s, err := c.session()
	if err != nil {
		return err
	}
	doc, err := liveXML(ctx, s, vm)
	if err != nil {
		return err
	}
	dev, err := vpfxml.WithLink(doc, alias, up)
	if err != nil || dev == "" {
		return err
	}
	if err := c.fit(ctx, s, vm); err != nil {
		return err
	}
	_, err = onDomain(ctx, s.hotplug, vm, "set link", func(c *client, d lv.Domain) (struct{}, error) {
		return struct{}{}, c.DomainUpdateDeviceFlags(d, dev, lv.DomainDeviceModifyLive)
	})
	// libvirt sends no event for such a change, so the inventory would not learn of it.
	if _, stale := c.fresh(ctx, s, vm); err == nil && stale != nil {
		s.pending.add(vm, cause{})
	}
	return err
}

// ChannelSocket returns the host's end of the VM's channel to sluice-guest, "" if the VM does not run or has no channel.
func (c *Conn) ChannelSocket(ctx context.Context, vm model.VMID) (path string, err error) {
	defer func() { err = fail("find the channel of", c.inv.subject(vm), err) }()
	s, err := c.session()
	if err != nil {
		return "", err
	}
	doc, err := liveXML(ctx, s, vm)
	if isGone(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return vpfxml.ChannelPath(doc)
}

// liveXML returns the XML of an active domain. If the domain is not active, the error matches model.ErrGone.
func liveXML(ctx context.Context, s *session, vm model.VMID) (string, error) {
	return onDomain(ctx, s.queries, vm, "read live XML", func(c *client, d lv.Domain) (string, error) {
		active, err := c.DomainIsActive(d)
		if err != nil {
			return "", err
		}
		if active == 0 {
			return "", errNotRunning
		}
		return c.xml(ctx, d, 0)
	})
}
