// Package ovs has the Uplinks for Open vSwitch: Switch with the kernel datapath and a legacy NIC, OVN with representors.
//
// The bridges of a Switch do what they did before: they learn, or a fixed entry says, that the frames for a guest go to its tap. While the
// guest is on a VF, a program at the tap sends them on to the PF, which passes them to the VF; for a dual path the program copies them. The
// program is pinned: neither the end of this process nor a restart of ovs-vswitchd removes it.
package ovs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"sluice/internal/host/kernel"
	"sluice/internal/host/mirror"
	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// Kind is the kind of this Uplink.
const Kind = "openvswitch"

// Kernel is what a Switch uses of the kernel.
type Kernel interface {
	Link(ctx context.Context, name string) (netdev.Link, error)
	Steer(ctx context.Context, d mirror.DualPath) error
	CloseDualPath(ctx context.Context, d mirror.DualPath) error
	Mirrors(ctx context.Context) ([]mirror.Mirror, error)
	CheckMirrors() error
	SetUp(ctx context.Context, name string) error
	uplink.NICKernel
}

var (
	_ Kernel        = (*kernel.Host)(nil)
	_ uplink.Uplink = (*Switch)(nil)
)

// Switch is the Uplink.
type Switch struct {
	uplink.NIC
	kernel Kernel
	db     *database

	userspace bool // serve the datapath in user space too, in which frames from the wire reach both paths twice
}

// New makes a Switch that follows the database of Open vSwitch, if this host has one. Close ends it.
func New(ctx context.Context, k Kernel, log *slog.Logger) *Switch {
	return &Switch{NIC: uplink.NIC{Kernel: k}, kernel: k, db: follow(ctx, log)}
}

// AllowUserspace makes it serve bridges whose datapath is in user space, as tests need them without the kernel's module.
func (s *Switch) AllowUserspace() { s.userspace = true }

// Userspace returns the bridges whose datapath is in user space: OVN's integration bridge and those of its mappings, which need no other,
// and the others.
func (s *Switch) Userspace() (ovn, others []string) {
	t, _ := s.db.state()
	for name, b := range t.bridges {
		switch {
		case !inUserspace(b):
		case t.integration != "" && (name == t.integration || t.mapped[name]):
			ovn = append(ovn, name)
		default:
			others = append(others, name)
		}
	}
	slices.Sort(ovn)
	slices.Sort(others)
	return ovn, others
}

// Close ends the connection to the database.
func (s *Switch) Close() { s.db.close() }

// Kind implements uplink.Uplink.
func (s *Switch) Kind() string { return Kind }

// PF implements uplink.Reader.
func (s *Switch) PF(links *uplink.Links, pf *model.PF) (up model.Uplink, ok bool) {
	t, err := s.db.state()
	p, known := t.ports[pf.Name]
	master := links.Master(links.ByName[pf.Name])
	dpdk, at, driven := t.dpdkPort(pf.Address)
	switch {
	case driven && !known:
		up = model.Uplink{Switch: at.bridge.Name, Port: dpdk}
		up.Why, up.Remedy = s.refuse(&t, pf, &at)
		return up, true
	case master != nil && master.Kind == "bond" && t.ports[master.Name].bridge != nil:
		return bonded(pf, master, t.ports[master.Name].bridge), true
	case known:
		up = model.Uplink{Switch: p.bridge.Name, Port: pf.Name, VLANFromNetwork: true, Note: t.offloads()}
		up.Why, up.Remedy = s.refuse(&t, pf, &p)
		if up.Why == "" && t.mapped[p.bridge.Name] && t.integration != "" {
			up.Why = fmt.Sprintf("OVN sends what %s carries through its access lists, which a VF of a NIC in mode legacy would go round", pf.Name)
			up.Remedy = fmt.Sprintf("use mode switchdev, while %[1]s has no VFs: echo 0 > /sys/class/net/%[1]s/device/sriov_numvfs; "+
				"devlink dev eswitch set pci/%[2]s mode switchdev", pf.Name, pf.Address)
		}
		return up, true
	case master != nil && master.Kind == "openvswitch":
		up.Why = fmt.Sprintf("%s is a port of Open vSwitch, whose database does not name its bridge", pf.Name)
		if err != nil {
			up.Why = fmt.Sprintf("%s is a port of Open vSwitch, whose database does not answer: %v", pf.Name, err)
		}
		up.Remedy, up.Passes = "systemctl status openvswitch-switch", true
		return up, true
	case err == nil && len(t.neutron) > 0:
		up.Why, up.Remedy = neutronAgent(pf, "the bridges of this host")
		return up, true
	case err == nil && len(t.bridges) > 0:
		return model.Uplink{
			Why: pf.Name + " is in no bridge of Open vSwitch", Remedy: "put it into one of Open vSwitch: ovs-vsctl add-port BRIDGE " + pf.Name,
		}, false
	}
	return model.Uplink{Why: "there is no Open vSwitch here"}, false
}

func tagOf(p *port) int {
	if p.Tag == nil {
		return 0
	}
	return *p.Tag
}

// Tap implements uplink.Reader.
func (s *Switch) Tap(_ *uplink.Links, tap *netdev.Link) (uplink.Port, bool) {
	t, _ := s.db.state()
	p, ok := t.ports[tap.Name]
	if !ok {
		return uplink.Port{}, false
	}
	at := uplink.Port{Switch: p.bridge.Name, VLAN: tagOf(&p), Up: true}
	if trunk(&p) {
		at.Refused = trunkPort(tap.Name)
	}
	return at, true
}

// Connection implements uplink.Reader.
func (s *Switch) Connection(_ context.Context, name string) (model.TapConnection, error) {
	t, err := s.db.state()
	if err != nil && len(t.bridges) == 0 {
		return model.TapConnection{}, fmt.Errorf("%w: Open vSwitch: %w: %w", model.ErrPermanent, uplink.ErrAbsent, err)
	}
	if t.bridges[name] == nil {
		why := "create it (ovs-vsctl add-br " + model.Shorten(name) + "), or name another"
		if err != nil {
			why = "its database does not answer: " + err.Error()
		}
		return model.TapConnection{}, fmt.Errorf("%w: Open vSwitch has no bridge %s: %s", model.ErrPermanent, model.Shorten(name), why)
	}
	return model.TapConnection{Switch: name, VirtualPort: "openvswitch", NoFunctions: s.noFunctions(&t, t.bridges[name])}, nil
}

// Routes implements uplink.Reader: it lists the MACs whose frames a program sends to a PF. All others go where the switch has learned. One
// whose fixed entry is missing, because ovs-vswitchd has restarted, is left out, so that it is repaired.
func (s *Switch) Routes(ctx context.Context) (all []model.Route, err error) {
	mirrors, err := s.kernel.Mirrors(ctx)
	t, _ := s.db.state()
	entries := map[string]map[model.MAC]bool{} // nil: unknown
	for _, m := range mirrors {
		p, known := t.ports[m.Tap]
		if !known || m.Mode != mirror.OpenVF && m.Mode != mirror.VFAlone {
			continue
		}
		have, asked := entries[p.bridge.Name]
		if !asked {
			if list, err := fixed(ctx, p.bridge.Name); err == nil { // no answer: nothing can be repaired either
				have = map[model.MAC]bool{}
				for _, e := range list {
					have[e.mac] = true
				}
			}
			entries[p.bridge.Name] = have
		}
		if have == nil || have[m.MAC] {
			all = append(all, model.Route{Network: p.bridge.Name, MAC: m.MAC, Port: m.PF, VLAN: m.VLAN, Kind: Kind})
		}
	}
	return all, err
}

// DualPaths implements uplink.Reader. What remains of a program whose tap is gone counts as one, so that it is removed.
func (s *Switch) DualPaths(ctx context.Context) (all []model.DualPath, err error) {
	mirrors, err := s.kernel.Mirrors(ctx)
	for _, m := range mirrors {
		if m.Mode == mirror.Both || m.Mode == mirror.OpenVF || m.Mode == mirror.VFAlone && m.Detached == model.Yes {
			all = append(all, model.DualPath{Tap: m.Tap, MAC: m.MAC, PF: m.PF, VLAN: m.VLAN, Detached: m.Detached})
		}
	}
	return all, err
}

// CheckDualPaths implements uplink.Reader.
func (s *Switch) CheckDualPaths() error { return s.kernel.CheckMirrors() }

// Watch implements uplink.Reader.
func (s *Switch) Watch(ctx context.Context) (<-chan struct{}, error) { return s.db.watch(ctx), nil }

// gone reports whether the interface certainly does not exist.
func (s *Switch) gone(ctx context.Context, name string) bool {
	_, err := s.kernel.Link(ctx, name)
	return errors.Is(err, model.ErrGone)
}
