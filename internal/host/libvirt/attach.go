package libvirt

import (
	"context"
	"fmt"
	"strings"
	"time"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/model"
)

// Attach hot-plugs a VF into a running domain (not into its stored definition). It succeeds if the alias is already attached with the same
// address.
func (c *Conn) Attach(ctx context.Context, vm model.VMID, spec HostdevSpec) (err error) {
	defer func() { err = fail(fmt.Sprintf("attach VF %s to", spec.Address), c.inv.subject(vm), err) }()
	doc, err := spec.xml()
	if err != nil {
		return fmt.Errorf("%w: %w", model.ErrPermanent, err)
	}
	s, err := c.session()
	if err != nil {
		return err
	}
	if err := c.attach(ctx, s, vm, spec, doc); err != nil {
		return err
	}
	// The inventory must not lag behind a successful Attach: a VF that looks free while a guest has it would be cleaned up.
	if _, err := c.fresh(ctx, s, vm); err != nil {
		s.pending.add(vm, cause{})
	}
	return nil
}

func (s HostdevSpec) xml() (string, error) {
	if !strings.HasPrefix(s.Alias, "ua-") {
		return "", fmt.Errorf("alias %q: libvirt takes only aliases that start with \"ua-\"", s.Alias)
	}
	return deviceXML(s)
}

func (c *Conn) attach(ctx context.Context, s *session, vm model.VMID, spec HostdevSpec, doc string) error {
	if there, err := c.attached(ctx, s, vm, spec); there || err != nil {
		return err
	}
	if err := c.fit(ctx, s, vm); err != nil {
		return err
	}
	_, err := onDomain(ctx, s.hotplug, vm, "attach device", func(c *client, d lv.Domain) (struct{}, error) {
		return struct{}{}, c.DomainAttachDeviceFlags(d, doc, uint32(lv.DomainDeviceModifyLive))
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	// An earlier attempt may have succeeded, for example one that was abandoned.
	if there, again := c.attached(ctx, s, vm, spec); there && again == nil {
		return nil
	}
	if heldByQEMU(err) {
		if asked := c.removeReadded(ctx, s, vm, spec); asked != "" {
			return fmt.Errorf("%w (%s)", err, asked)
		}
	}
	return err
}

// attached reports whether the domain has the device now.
func (c *Conn) attached(ctx context.Context, s *session, vm model.VMID, spec HostdevSpec) (bool, error) {
	d, err := c.fresh(ctx, s, vm)
	if err != nil {
		return false, err
	}
	return d.holds(spec)
}

// holds reports whether the domain has the device. If its alias is used by anything else, that is an error which the administrator or fsck
// must resolve.
func (d *Domain) holds(spec HostdevSpec) (bool, error) {
	h := d.hostdev(spec.Alias)
	switch {
	case h == nil && d.has(spec.Alias):
		return false, fmt.Errorf("%w: alias %s is in use for another kind of device", model.ErrPermanent, spec.Alias)
	case h == nil:
		return false, nil
	case h.Address != spec.Address:
		return false, fmt.Errorf("%w: alias %s is in use for %s; detach that first", model.ErrPermanent, spec.Alias, h.Address)
	}
	return true, nil
}

// fresh reads a domain from libvirt and updates the cache. A domain that is not active counts as gone.
func (c *Conn) fresh(ctx context.Context, s *session, vm model.VMID) (*Domain, error) {
	r, err := c.read(ctx, s, vm)
	if err != nil {
		return nil, err
	}
	if !r.active() {
		return nil, errNotRunning
	}
	c.inv.put(r, false, time.Now())
	return &r.dom, nil
}

var errNotRunning = fmt.Errorf("it is not running: %w", model.ErrGone)

func (d *Domain) hostdev(alias string) *Hostdev {
	for i := range d.Hostdevs {
		if d.Hostdevs[i].Alias == alias {
			return &d.Hostdevs[i]
		}
	}
	return nil
}
