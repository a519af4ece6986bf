package ovs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"sluice/internal/host/mirror"
	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// KindOVN is the kind of OVN's Uplink.
const KindOVN = "ovn"

// OVN is the Uplink for OVN with a NIC in mode switchdev. A VM's logical port is where the external id iface-id is, at its tap or at the
// representor of its VF, and moves in one transaction of the database: OVN's access lists and port security hold for either. A dual path
// leaves it where it is, and pinned programs join the other interface to it.
type OVN struct {
	*Switch

	mu      sync.Mutex
	pending map[string]bool // the logical ports that ovn-controller has not taken over since they were moved
}

var _ uplink.Uplink = (*OVN)(nil)

// OVN returns the Uplink for OVN over the same database.
func (s *Switch) OVN() *OVN { return &OVN{Switch: s, pending: map[string]bool{}} }

// Kind implements uplink.Uplink.
func (o *OVN) Kind() string { return KindOVN }

// PF implements uplink.Reader. Whatever connects the PF, a bridge of OVN's mappings, a bond or an address for tunnels, its VFs are ports of
// OVN's bridge.
func (o *OVN) PF(links *uplink.Links, pf *model.PF) (up model.Uplink, ok bool) {
	t, _ := o.db.state()
	br := t.bridges[t.integration]
	link := links.ByName[pf.Name]
	if br == nil {
		return model.Uplink{Why: "OVN does not use this host"}, false
	}
	if pf.Eswitch != model.EswitchSwitchdev {
		return model.Uplink{
			Why: "OVN needs a NIC in mode switchdev",
			Remedy: fmt.Sprintf("for VMs of OVN use mode switchdev, while %[1]s has no VFs: echo 0 > /sys/class/net/%[1]s/device/sriov_numvfs; "+
				"devlink dev eswitch set pci/%[2]s mode switchdev", pf.Name, pf.Address),
		}, false
	}
	p, isPort := t.ports[pf.Name]
	found := uplink.Represent(links, pf, link)
	if !isPort && found == 0 {
		return model.Uplink{
			Why:    fmt.Sprintf("no interface of this network namespace represents a VF of %s", pf.Name),
			Remedy: "see where the representors are: devlink port show; ip -d link",
		}, false
	}
	up = model.Uplink{Switch: br.Name, Port: pf.Name, Representors: true, OnePort: true, Note: t.offloads()}
	switch {
	case p.kind != "":
		up.Why = fmt.Sprintf("%s is a port of type %s, which no interface of the host is", pf.Name, p.kind)
		up.Remedy = "let the kernel drive the PF: representors that DPDK drives are out of Sluice's reach"
	case len(br.Controller) > 0:
		up.Why = fmt.Sprintf("%s has a controller beside OVN, whose flows may tell a VM's tap from a representor", br.Name)
		up.Remedy = "remove it: ovs-vsctl del-controller " + br.Name
	case t.kindsOfDatapath() > 1:
		up.Why = "the bridges of this host use two kinds of datapath, the kernel's and one in user space, and Sluice cannot tell then " +
			"when both go by OVN's flows"
		up.Remedy = "use one kind: ovs-vsctl --columns=name,datapath_type list bridge; ovs-vsctl set bridge BRIDGE datapath_type=TYPE"
	case found == 0 && pf.NumVFs > 0:
		up.Why = fmt.Sprintf("no interface of this network namespace represents a VF of %s", pf.Name)
		up.Remedy = "see where the representors are: devlink port show; ip -d link"
	}
	t.strangers(links, pf)
	return up, true
}

// kindsOfDatapath counts the kinds of datapath that bridges use; ovs-vswitchd waits for its revalidators only if there is one.
func (t *topology) kindsOfDatapath() int {
	kinds := map[string]bool{}
	for _, b := range t.bridges {
		kinds[cmp.Or(b.Datapath, "system")] = true
	}
	return len(kinds)
}

// strangers takes the port from the VFs whose representors are ports of another switch than OVN's bridge.
func (t *topology) strangers(links *uplink.Links, pf *model.PF) {
	for i := range pf.VFs {
		vf := &pf.VFs[i]
		l := links.ByName[vf.Port]
		if l == nil {
			continue
		}
		if p, isPort := t.ports[vf.Port]; isPort && p.bridge.Name != t.integration {
			uplink.Elsewhere(vf, p.bridge.Name, "ovs-vsctl del-port "+vf.Port)
		} else if m := links.Master(l); m != nil && m.Kind != "openvswitch" {
			uplink.Elsewhere(vf, m.Name, "ip link set "+vf.Port+" nomaster")
		}
	}
}

// Tap implements uplink.Reader.
func (o *OVN) Tap(links *uplink.Links, tap *netdev.Link) (uplink.Port, bool) {
	p, ok := o.Switch.Tap(links, tap)
	t, _ := o.db.state()
	if at := t.ports[tap.Name]; ok && p.Refused == "" && at.Tag != nil {
		p.Refused = taggedPort(tap.Name)
	}
	return p, ok && p.Switch == t.integration
}

// taggedPort is why OVN's rules would not hold for a VF of a port.
func taggedPort(tap string) string {
	return "tap " + tap + " has a tag, and OVN knows none; ovs-vsctl clear port " + tap + " tag"
}

// Connection implements uplink.Reader.
func (o *OVN) Connection(ctx context.Context, name string) (model.TapConnection, error) {
	if t, _ := o.db.state(); name == "" || name != t.integration {
		return model.TapConnection{}, fmt.Errorf("%w: OVN has no bridge %s: name its integration bridge: %w", model.ErrPermanent,
			model.Shorten(name), uplink.ErrAbsent)
	}
	return o.Switch.Connection(ctx, name)
}

// Routes implements uplink.Reader: it lists the guests whose logical port is at a representor in OVN's bridge, and not at their tap
// as well.
func (o *OVN) Routes(context.Context) (all []model.Route, err error) {
	t, _ := o.db.state()
	for name, i := range t.interfaces {
		tap := i.IDs[ofTap]
		p, isPort := t.ports[name]
		mac, err := model.ParseMAC(i.IDs[ofMAC])
		if tap == "" || i.IDs[ifaceID] == "" || !isPort || p.bridge.Name != t.integration || err != nil {
			continue
		}
		if at := t.interfaces[tap]; at == nil || at.IDs[ifaceID] == "" {
			all = append(all, model.Route{Network: t.integration, MAC: mac, Port: name, Kind: KindOVN})
		}
	}
	return all, nil
}

// DualPaths implements uplink.Reader.
func (o *OVN) DualPaths(ctx context.Context) (all []model.DualPath, err error) {
	mirrors, err := o.kernel.Mirrors(ctx)
	at := map[[2]string]bool{}
	for _, m := range mirrors {
		d := model.DualPath{Tap: m.Tap, MAC: m.MAC, PF: m.PF, Detached: m.Detached}
		switch m.Mode {
		case mirror.All:
		case mirror.Sent: // the other half
			d.Tap, d.Detached = m.Port, model.TriOf(o.gone(ctx, m.Port))
		default:
			continue
		}
		if key := [2]string{d.Tap, d.MAC.String()}; !at[key] {
			at[key] = true
			all = append(all, d)
		}
	}
	return all, err
}

// Check implements uplink.Writer.
func (o *OVN) Check(ctx context.Context, p *model.PathStep) error {
	if err := o.Switch.Check(ctx, p); err != nil {
		return err
	}
	t, _ := o.db.state()
	tap := t.interfaces[p.Tap]
	switch {
	case p.Network != t.integration:
		return fmt.Errorf("%w: tap %s is not in OVN's bridge %s", model.ErrPermanent, p.Tap, t.integration)
	case t.ports[p.Tap].Tag != nil:
		return fmt.Errorf("%w: tap %s has a tag, and OVN knows none: ovs-vsctl clear port %[2]s tag", model.ErrPermanent, p.Tap)
	case cmp.Or(tap.IDs[ifaceID], tap.IDs[keptAs]) == "":
		return fmt.Errorf("tap %s has no iface-id, so OVN does not know it: ovs-vsctl set interface %[1]s external_ids:iface-id=PORT", p.Tap)
	case tap.IDs[ifaceID] != "" && tap.IDs[installed] != "true":
		return fmt.Errorf("OVN has not set up logical port %s on this host: ovn-sbctl list port_binding %[1]s", model.Shorten(tap.IDs[ifaceID]))
	}
	return nil
}

// Announce implements uplink.Writer. OVN itself announces its logical ports where they have to do with a physical network; in a tunnel's
// network their MACs have no place.
func (o *OVN) Announce(context.Context, *model.PathStep) error { return nil }

// errNoRepresentor means that the Step names no port.
func errNoRepresentor(p *model.PathStep) error {
	if p.Uplink == "" || !p.Representor {
		return fmt.Errorf("%w: the VF has no representor in this network namespace: devlink port show", model.ErrPermanent)
	}
	return nil
}

var errSlow = errors.New("ovn-controller has not set it up: systemctl status ovn-controller")
