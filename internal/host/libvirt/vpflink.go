package libvirt

import (
	"context"
	"errors"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/host/libvirt/vpfxml"
	"sluice/internal/model"
)

// SetLink gives a function of a virtual PF a carrier or takes it away, in the running VM alone. It is idempotent. While QEMU
// has a link down it lets no frame pass, either way.
func (c *Conn) SetLink(ctx context.Context, vm model.VMID, alias string, up bool) error {
	if err := c.setLink(ctx, vm, alias, up); err != nil {
		op := "take the link down of "
		if up {
			op = "set the link up of "
		}
		return fail(op+alias+" of", c.inv.subject(vm), err)
	}
	return nil
}

func (c *Conn) setLink(ctx context.Context, vm model.VMID, alias string, up bool) error {
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
	// libvirt tells nobody of such a change, so the inventory would not learn of it.
	if _, stale := c.fresh(ctx, s, vm); err == nil && stale != nil {
		s.pending.add(vm, cause{})
	}
	return err
}

// ChannelSocket is the host's end of the VM's channel to sluice-guest, "" where it has none that is running.
func (c *Conn) ChannelSocket(ctx context.Context, vm model.VMID) (string, error) {
	s, err := c.session()
	if err != nil {
		return "", fail("find the channel of", c.inv.subject(vm), err)
	}
	doc, err := liveXML(ctx, s, vm)
	if err == nil {
		var path string
		if path, err = vpfxml.ChannelPath(doc); err == nil {
			return path, nil
		}
	}
	if errors.Is(err, model.ErrGone) || isGone(err) {
		return "", nil
	}
	return "", fail("find the channel of", c.inv.subject(vm), err)
}

// liveXML is that of a domain that is active; of another it is gone.
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
