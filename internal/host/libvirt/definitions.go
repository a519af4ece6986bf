package libvirt

import (
	"context"
	"errors"
	"fmt"
	"strings"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/model"
)

// Definition is a domain's persistent definition.
type Definition struct {
	VM        model.VMID
	Name      string
	XML       string // including secrets
	Public    string // without secrets
	Transient bool   // libvirt stores no definition: XML is that of the running domain
	Running   bool
	Saved     bool // it has a managed save image (virsh managedsave)
}

// Definitions reads the definitions of the domains with these names or UUIDs, or of all if none is given. If a named domain does not exist,
// the error matches model.ErrGone.
func (c *Conn) Definitions(ctx context.Context, names []string) ([]Definition, error) {
	s, err := c.session()
	if err != nil {
		return nil, fail("read definitions of", c.o.URI, err)
	}
	all := len(names) == 0
	if all {
		doms, err := onConn(ctx, s.queries, "", "list domains", func(c *client) ([]lv.Domain, error) {
			doms, _, err := c.ConnectListAllDomains(1, 0)
			return doms, err
		})
		if err != nil {
			return nil, fail("list the domains of", c.o.URI, err)
		}
		for _, d := range doms {
			names = append(names, string(vmID(d)))
		}
	}
	out := make([]Definition, 0, len(names))
	for _, name := range names {
		d, err := c.definition(ctx, s, name)
		if all && isGone(err) {
			continue
		}
		if err != nil {
			return nil, fail("read the definition of", model.Shorten(name), err)
		}
		out = append(out, d)
	}
	return out, nil
}

func (c *Conn) definition(ctx context.Context, s *session, name string) (Definition, error) {
	var vm model.VMID
	if model.IsUUID(name) {
		vm, name = model.VMID(strings.ToLower(name)), ""
	}
	def, err := c.stored(ctx, s, vm, name)
	if err != nil {
		return Definition{}, err
	}
	public, err := onDomain(ctx, s.queries, def.vm, "read definition", func(c *client, d lv.Domain) (string, error) {
		return c.xml(ctx, d, lv.DomainXMLInactive)
	})
	return Definition{VM: def.vm, Name: def.name, XML: def.xml, Public: public, Transient: !def.stored, Running: def.active, Saved: def.saved},
		err
}

// ErrChanged means that a definition has changed since it was read.
var ErrChanged = errors.New("its definition was changed meanwhile")

// NotKept returns the error for a definition that libvirt did not store as it was given.
func NotKept(diffs []string) error {
	return fmt.Errorf("%w: libvirt did not keep what it was given (its version must be 8.2 or later): %q", model.ErrPermanent, diffs)
}

// Redefine replaces a definition returned by Definitions, whether or not the domain runs. kept checks what libvirt stored; if it returns an
// error, the old definition is restored.
func (c *Conn) Redefine(ctx context.Context, old *Definition, changed string, kept func(doc string) error) (err error) {
	defer func() { err = fail("define", old.Name, err) }()
	s, err := c.session()
	if err != nil {
		return err
	}
	c.defining.Lock()
	defer c.defining.Unlock()
	now, err := c.stored(ctx, s, old.VM, "")
	switch {
	case err != nil:
		return err
	case now.xml != old.XML:
		return fmt.Errorf("%w: %w: read it again", model.ErrPermanent, ErrChanged)
	}
	if err := define(ctx, s, old.VM, changed); err != nil {
		return err
	}
	if now, err = c.stored(ctx, s, old.VM, ""); err == nil {
		err = kept(now.xml)
	}
	if err != nil {
		return errors.Join(err, defineAgain(ctx, s, old.VM, old.XML))
	}
	return nil
}

// Switches maps the names of libvirt's networks to their switches. Networks without one are left out.
func (c *Conn) Switches(ctx context.Context) (_ map[string]string, err error) {
	defer func() { err = fail("read the networks of", c.o.URI, err) }()
	s, err := c.session()
	if err != nil {
		return nil, err
	}
	out, err := onConn(ctx, s.queries, "", "list networks", func(c *client) (map[string]string, error) {
		nets, _, err := c.ConnectListAllNetworks(1, 0)
		out := map[string]string{}
		for _, n := range nets {
			if bridge, err := c.NetworkGetBridgeName(n); err == nil && bridge != "" {
				out[n.Name] = bridge
			}
		}
		return out, err
	})
	if isCode(err, lv.ErrNoSupport) {
		return nil, nil // this driver has no networks
	}
	return out, err
}

// ReadVM parses a domain's XML. switches is the result of Switches.
func ReadVM(doc string, switches map[string]string) (model.VM, error) {
	d, err := parseDomain(doc)
	if err != nil {
		return model.VM{}, err
	}
	for i := range d.NICs {
		if name, ok := strings.CutPrefix(d.NICs[i].Network, unresolved); ok {
			d.NICs[i].Network = switches[name]
		}
	}
	return d.VM, nil
}
