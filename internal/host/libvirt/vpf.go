package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/host/libvirt/vpfxml"
	"sluice/internal/model"
)

// persistent is a domain's stored definition, with the states that prevent changing it.
type persistent struct {
	vm     model.VMID
	name   string
	xml    string
	stored bool // it is not transient
	active bool
	saved  bool // it has a managed save image (virsh managedsave)
}

// DefineVPF adds a virtual PF to the persistent XML of a VM that is shut off and leaves the rest of the XML unchanged. The VM is p.VM or,
// if that is empty, the one named p.VMName; both are set on return, and so are MACs that were zero. If the virtual PF already exists
// exactly as requested, DefineVPF succeeds and sets p's MACs.
func (c *Conn) DefineVPF(ctx context.Context, p *model.VirtualPF) (err error) {
	defer func() { err = fail("define virtual PF "+model.Shorten(p.Name)+" of", vpfSubject(p), err) }()
	if err := p.Check(); err != nil {
		return fmt.Errorf("%w: %w", model.ErrPermanent, err)
	}
	s, err := c.session()
	if err != nil {
		return err
	}
	c.defining.Lock() // concurrent calls could choose the same MAC, or undo each other's change
	defer c.defining.Unlock()
	def, err := c.stored(ctx, s, p.VM, p.VMName)
	if err != nil {
		return err
	}
	p.VM, p.VMName = def.vm, def.name
	if vpfxml.Adopt(def.xml, p) {
		return c.giveMACs(ctx, s, p)
	}
	if err := def.changeable(); err != nil {
		return err
	}
	connection, err := c.hostFits(ctx, s, def.xml, p)
	if err != nil {
		return err
	}
	if err := c.giveMACs(ctx, s, p); err != nil {
		return err
	}
	changed, err := vpfxml.Define(def.xml, p, connection)
	if err != nil {
		return err
	}
	return c.store(ctx, s, def, changed, p)
}

func vpfSubject(p *model.VirtualPF) string { return cmp.Or(p.VMName, string(p.VM)) }

// store defines the domain and checks that libvirt kept everything. If not, it restores the previous definition.
func (c *Conn) store(ctx context.Context, s *session, def persistent, changed string, p *model.VirtualPF) error {
	if err := define(ctx, s, def.vm, changed); err != nil {
		return err
	}
	now, err := c.stored(ctx, s, def.vm, "")
	if err != nil {
		return errors.Join(err, defineAgain(ctx, s, def.vm, def.xml))
	}
	diffs, err := vpfxml.Compare(now.xml, p)
	if err == nil && len(diffs) == 0 {
		return nil
	}
	return errors.Join(NotKept(diffs), err, defineAgain(ctx, s, def.vm, def.xml))
}

// UndefineVPF removes a virtual PF from the persistent XML of a VM that is shut off. It is not an error if it does not exist, or the VM
// does not.
func (c *Conn) UndefineVPF(ctx context.Context, vm model.VMID, name string) (err error) {
	defer func() {
		if isGone(err) {
			err = nil
		}
		err = fail("undefine virtual PF "+model.Shorten(name)+" of", c.inv.subject(vm), err)
	}()
	s, err := c.session()
	if err != nil {
		return err
	}
	c.defining.Lock()
	defer c.defining.Unlock()
	def, err := c.stored(ctx, s, vm, "")
	if err != nil {
		return err
	}
	changed, found, err := vpfxml.Undefine(def.xml, name)
	if err != nil || !found {
		return err
	}
	if err := def.changeable(); err != nil {
		return err
	}
	return define(ctx, s, vm, changed)
}

// stored reads a domain's persistent definition, found by ID or, if that is empty, by name.
func (c *Conn) stored(ctx context.Context, s *session, vm model.VMID, name string) (persistent, error) {
	return onConn(ctx, s.queries, vm, "read definition", func(c *client) (out persistent, err error) {
		var d lv.Domain
		if vm == "" {
			d, err = c.DomainLookupByName(name)
		} else if d, err = handle(vm); err == nil {
			d, err = c.DomainLookupByUUID(d.UUID)
		}
		if err != nil {
			return out, err
		}
		return readStored(ctx, c, d)
	})
}

func readStored(ctx context.Context, c *client, d lv.Domain) (persistent, error) {
	out := persistent{vm: vmID(d), name: d.Name}
	is, err := c.DomainIsPersistent(d)
	if err != nil {
		return out, err
	}
	out.stored = is == 1
	if is, err = c.DomainIsActive(d); err != nil {
		return out, err
	}
	out.active = is == 1
	if is, err = c.DomainHasManagedSaveImage(d, 0); err != nil && !isCode(err, lv.ErrNoSupport) {
		return out, err
	}
	out.saved = is == 1
	// Without the secure flag, defining the domain again would lose its passwords.
	out.xml, err = c.xml(ctx, d, lv.DomainXMLInactive|lv.DomainXMLSecure)
	return out, err
}

// changeable returns an error if the definition cannot be changed now.
func (d *persistent) changeable() error {
	switch {
	case !d.stored:
		return fmt.Errorf("%w: it is transient: libvirt keeps no definition of it: define it (virsh define), then start it from that",
			model.ErrPermanent)
	case d.active:
		return fmt.Errorf("%w: it is running, and a virtual PF cannot be plugged or unplugged then: shut it down first (virsh shutdown %s)",
			model.ErrPermanent, d.name)
	case d.saved:
		return fmt.Errorf("%w: it is saved, and would resume with the devices it had then: start it and shut it down (virsh start %s), or "+
			"discard the saved state (virsh managedsave-remove %[2]s)", model.ErrPermanent, d.name)
	}
	return nil
}

// againWithin bounds the time to restore a definition.
const againWithin = 10 * time.Second

// defineAgain restores a definition, even if the caller's ctx has ended.
func defineAgain(ctx context.Context, s *session, vm model.VMID, doc string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), againWithin)
	defer cancel()
	return define(ctx, s, vm, doc)
}

func define(ctx context.Context, s *session, vm model.VMID, doc string) error {
	_, err := onConn(ctx, s.queries, vm, "define domain", func(c *client) (lv.Domain, error) { return c.DomainDefineXMLFlags(doc, 0) })
	return err
}
