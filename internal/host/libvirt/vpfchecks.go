package libvirt

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	lv "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"sluice/internal/host/libvirt/vpfxml"
	"sluice/internal/model"
)

// hostFits returns how a tap is connected to the virtual PF's switch, or an error if the host cannot support the virtual PF.
func (c *Conn) hostFits(ctx context.Context, s *session, doc string, p *model.VirtualPF) (connection model.TapConnection, err error) {
	if p.Backend == model.BackendTap {
		connection, err = c.o.Switches.Connection(ctx, p.Network)
		if why, remedy, no := strings.Cut(connection.NoFunctions, "; "); err == nil && no {
			err = fmt.Errorf("%w: %s: %s", model.ErrPermanent, why, remedy)
		}
		if err != nil {
			return connection, err
		}
	}
	have, err := c.emulator(ctx, s, p.VM, doc)
	if err != nil {
		return connection, err
	}
	need, what := version{10, 1}, "composes virtual PFs"
	if p.Model == model.VPFIGB {
		need, what = version{8, 0}, "emulates an igb"
	}
	if have.before(need) {
		err = fmt.Errorf("%w: its QEMU is %s, and the first that %s is %s: install that, or a later one (Debian 13 has it in trixie-backports)",
			model.ErrPermanent, have, what, need)
	}
	return connection, err
}

// version is a version of QEMU.
type version struct{ major, minor int }

func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func (v version) before(w version) bool {
	return v.major < w.major || v.major == w.major && v.minor < w.minor
}

// emulatorVersion returns the version of a domain's QEMU. libvirt reports the version of its default emulator only, and the newest machine
// type of any.
func (c *Conn) emulatorVersion(ctx context.Context, s *session, vm model.VMID, doc string) (version, error) {
	var x libvirtxml.Domain
	if err := x.Unmarshal(doc); err != nil {
		return version{}, fmt.Errorf("read domain XML: %w", err)
	}
	path, arch, family := "", "x86_64", "q35"
	if x.Devices != nil {
		path = x.Devices.Emulator
	}
	if x.OS != nil && x.OS.Type != nil && x.OS.Type.Arch != "" {
		if arch = x.OS.Type.Arch; arch != "x86_64" && arch != "i686" {
			family = "virt"
		}
	}
	return onConn(ctx, s.queries, vm, "read emulator's version", func(c *client) (version, error) {
		usual, _, err := capabilities(c, "", arch, family, x.Type)
		if err != nil {
			return version{}, err
		}
		if path == "" || path == usual {
			v, err := c.ConnectGetVersion()
			return version{int(v / 1_000_000), int(v / 1_000 % 1_000)}, err
		}
		_, machine, err := capabilities(c, path, arch, family, x.Type)
		if err != nil {
			return version{}, err
		}
		return machineVersion(path, machine)
	})
}

// capabilities returns an emulator's path and its newest machine type of that family. An empty path means the default emulator.
func capabilities(c *client, path, arch, family, kind string) (emulator, machine string, err error) {
	optional := func(s string) lv.OptString {
		if s == "" {
			return nil
		}
		return lv.OptString{s}
	}
	doc, err := c.ConnectGetDomainCapabilities(optional(path), optional(arch), optional(family), optional(kind), 0)
	if err != nil {
		return "", "", err
	}
	var x libvirtxml.DomainCaps
	if err := x.Unmarshal(doc); err != nil {
		return "", "", fmt.Errorf("read domain capabilities: %w", err)
	}
	return x.Path, x.Machine, nil
}

var machineType = regexp.MustCompile(`-(\d+)\.(\d+)$`)

// machineVersion reads QEMU's version from its newest machine type, such as pc-q35-10.1: each version adds one.
func machineVersion(path, machine string) (version, error) {
	m := machineType.FindStringSubmatch(machine)
	if m == nil {
		return version{}, fmt.Errorf("%w: cannot tell the version of its QEMU, %s, from its machine type %q: use libvirt's default emulator "+
			"(remove <emulator>)", model.ErrPermanent, path, machine)
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return version{major, minor}, nil
}

// giveMACs rejects MACs that another NIC of this host has, and chooses those that are zero.
func (c *Conn) giveMACs(ctx context.Context, s *session, p *model.VirtualPF) error {
	taken, err := onConn(ctx, s.queries, p.VM, "read MACs of all domains", c.allMACs(ctx))
	if err != nil {
		return err
	}
	wanted := []*model.MAC{&p.MAC}
	for i := range p.VFs {
		wanted = append(wanted, &p.VFs[i].MAC)
	}
	function := func(i int) string { return model.VPFAlias(p.Name, i-1) }
	for i, m := range wanted {
		if m.IsZero() {
			continue
		}
		if m[0]&1 != 0 {
			return fmt.Errorf("%w: the MAC %s of %s is a multicast address: choose one whose first byte is even", model.ErrPermanent, m, function(i))
		}
		if who := taken[*m]; who != "" && who != function(i)+" of "+p.VMName {
			return fmt.Errorf("%w: duplicate MAC: %s, wanted for %s, is that of %s: choose another, or none", model.ErrPermanent, m,
				function(i), who)
		}
		taken[*m] = function(i)
	}
	for i, m := range wanted {
		for m.IsZero() {
			if n := randomMAC(); taken[n] == "" {
				*m, taken[n] = n, function(i)
			}
		}
	}
	return nil
}

// randomMAC returns a MAC with the prefix that libvirt and QEMU use for guests.
func randomMAC() model.MAC {
	m := model.MAC{0x52, 0x54, 0}
	_, _ = rand.Read(m[3:]) // never fails
	return m
}

// MACs returns the owner of each MAC, as an interface's alias and its VM's name, from the definitions of all domains and from those that
// run.
func (c *Conn) MACs(ctx context.Context) (all map[model.MAC]string, err error) {
	defer func() { err = fail("read the MACs of all domains of", c.o.URI, err) }()
	s, err := c.session()
	if err != nil {
		return nil, err
	}
	return onConn(ctx, s.queries, "", "read MACs of all domains", c.allMACs(ctx))
}

// allMACs is the call that MACs makes.
func (c *Conn) allMACs(ctx context.Context) func(*client) (map[model.MAC]string, error) {
	return func(conn *client) (map[model.MAC]string, error) {
		doms, _, err := conn.ConnectListAllDomains(1, 0)
		if err != nil {
			return nil, err
		}
		out := map[model.MAC]string{}
		for _, d := range doms {
			macs, err := c.macsOf(ctx, conn, d)
			if err != nil && !isGone(err) {
				return nil, fmt.Errorf("%s: %w", d.Name, err)
			}
			for m, who := range macs {
				out[m] = who + " of " + d.Name
			}
		}
		return out, nil
	}
}

// macsOf returns which interface of a domain has each MAC, in its definition and while it runs. For a stuck domain it returns the MACs of
// the last reading.
func (c *Conn) macsOf(ctx context.Context, conn *client, d lv.Domain) (map[model.MAC]string, error) {
	out := map[model.MAC]string{}
	for _, flags := range []lv.DomainXMLFlags{0, lv.DomainXMLInactive} {
		doc, err := conn.xml(ctx, d, flags)
		if errors.Is(err, ErrStuck) {
			if macs, known := c.inv.macs(vmID(d)); known {
				maps.Copy(out, macs)
				return out, nil
			}
		}
		if err != nil {
			return out, err
		}
		macs, err := vpfxml.MACs(doc)
		if err != nil {
			return out, err
		}
		maps.Copy(out, macs)
	}
	return out, nil
}
