// Package bridge is the Uplink for a Linux bridge. The PF, or a bond that it is in, is a port of the bridge. A static bridge entry
// determines where the frames for a MAC go; for a dual path, the entry points to the tap, and a program there copies the frames.
//
// A legacy NIC forwards frames to its VFs by MAC: frames for a VF leave through the PF. Of a NIC in mode switchdev, each VF has a port of
// its own in the bridge, its representor.
package bridge

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/host/bridge"
	"sluice/internal/host/kernel"
	"sluice/internal/host/mirror"
	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// Kind is the kind of this Uplink.
const Kind = "linux-bridge"

// kind is netdev.Link.Kind of a bridge.
const kind = "bridge"

// Kernel is what a Bridge uses of the kernel.
type Kernel interface {
	Link(ctx context.Context, name string) (netdev.Link, error)
	Links(ctx context.Context) ([]netdev.Link, error)
	FDBEntries(ctx context.Context) ([]bridge.FDBEntry, error)
	PinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error
	UnpinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error
	PreparePort(ctx context.Context, port string) error
	JoinAs(ctx context.Context, dev, tap string) error
	OpenDualPath(ctx context.Context, d mirror.DualPath) (note string, err error)
	CloseDualPath(ctx context.Context, d mirror.DualPath) error
	Mirrors(ctx context.Context) ([]mirror.Mirror, error)
	CheckMirrors() error
	uplink.NICKernel
}

var (
	_ Kernel        = (*kernel.Host)(nil)
	_ uplink.Uplink = (*Bridge)(nil)
)

// Bridge is the Uplink. It keeps no state between calls.
type Bridge struct {
	uplink.NIC
	kernel Kernel
}

// New makes a Bridge that uses the host's kernel.
func New(k Kernel) *Bridge { return &Bridge{uplink.NIC{Kernel: k}, k} }

// Kind implements uplink.Uplink.
func (b *Bridge) Kind() string { return Kind }

// PF implements uplink.Reader.
//
// A bond counts as the port of its active PF: the host then sends and receives only through that PF, as if the PF were the port itself. In
// other modes, frames for a VF may arrive through a port other than its PF, whose NIC does not know the VF, and frames from the host to the
// VF may leave through that port, to a switch that never returns them. With representors the bond's mode does not matter if its ports
// belong to one embedded switch.
func (b *Bridge) PF(links *uplink.Links, pf *model.PF) (up model.Uplink, ok bool) {
	link := links.ByName[pf.Name]
	port := link
	if m := links.Master(link); m != nil && m.Kind == "bond" {
		port = m
	}
	br := links.Master(port)
	if br == nil || br.Kind != kind {
		return refuse(link, port, br), false
	}
	up = model.Uplink{Switch: br.Name, Port: port.Name}
	switch {
	case pf.Eswitch == model.EswitchSwitchdev:
		up.Representors = true
		defer strangers(links, pf, br)
		switch found := uplink.Represent(links, pf, link); {
		case found == 0 && pf.NumVFs > 0:
			up.Why = fmt.Sprintf("the NIC's embedded switch is in mode switchdev, in which a VF reaches only its representor, and no interface of "+
				"this network namespace represents a VF of %s: a VM would be cut off by one", pf.Name)
			up.Remedy = fmt.Sprintf("see where the representors are: devlink port show; ip -d link; or use mode legacy, while %[1]s has no VFs: "+
				"echo 0 > /sys/class/net/%[1]s/device/sriov_numvfs; devlink dev eswitch set pci/%[2]s mode legacy", pf.Name, pf.Address)
		case port != link:
			oneSwitch(&up, links, link, port)
		}
	case port != link:
		bonded(&up, link, port, links.ByIndex[port.Bond.Active])
	}
	return up, true
}

// refuse returns why the bridge cannot steer frames to a PF's VFs, and the remedy. port is the PF or its bond; master may be nil.
func refuse(pf, port, master *netdev.Link) model.Uplink {
	const where = "into the bridge that the VMs' taps are in: ip link set %s master BRIDGE"
	switch {
	case master == nil && port != pf:
		return model.Uplink{
			Why:    fmt.Sprintf("%s is in bond %s, which is in no bridge", pf.Name, port.Name),
			Remedy: fmt.Sprintf("put the bond "+where, port.Name),
		}
	case master == nil:
		return model.Uplink{Why: pf.Name + " is in no bridge", Remedy: fmt.Sprintf("put it "+where, pf.Name)}
	case master.Kind == "openvswitch":
		return model.Uplink{
			Why:    port.Name + " is a port of Open vSwitch, not of a Linux bridge",
			Remedy: "connect the PF and the VMs' taps by a Linux bridge",
		}
	}
	return model.Uplink{
		Why:    fmt.Sprintf("%s is in %s (%s), not in a bridge", port.Name, master.Name, master.Kind),
		Remedy: "connect the PF and the VMs' taps by a Linux bridge, directly or through a bond of mode active-backup",
	}
}

// bonded sets why VFs of a PF in a bond cannot be used, if so; active may be nil.
func bonded(up *model.Uplink, pf, bond, active *netdev.Link) {
	switch {
	case bond.Bond.Mode != netdev.ActiveBackup:
		up.Why = fmt.Sprintf("%s is in bond %s of mode %s, which sends frames through any of its ports, not through the PF of the VF that "+
			"they are for", pf.Name, bond.Name, bond.Bond.Mode)
		up.Remedy = "use mode active-backup, or take the PF out of the bond"
	case active == nil:
		up.Why = fmt.Sprintf("bond %s, which %s is in, has no active port", bond.Name, pf.Name)
		up.Remedy = "check the cables: ip -d link show " + bond.Name
		up.Passes = true
	case active.Index != pf.Index:
		up.Why = fmt.Sprintf("%s is a backup of bond %s, which receives through %s", pf.Name, bond.Name, active.Name)
		up.Remedy = fmt.Sprintf("use VFs of %s, or: ip link set %s type bond active_slave %s", active.Name, bond.Name, pf.Name)
		up.Passes = true
	}
}

// Tap implements uplink.Reader.
func (b *Bridge) Tap(links *uplink.Links, tap *netdev.Link) (p uplink.Port, ok bool) {
	br := links.Master(tap)
	if br == nil || br.Kind != kind {
		return p, false
	}
	return uplink.Port{Switch: br.Name, Up: br.Up}, true
}

// Connection implements uplink.Reader.
func (b *Bridge) Connection(ctx context.Context, name string) (model.TapConnection, error) {
	link, err := b.kernel.Link(ctx, name)
	if errors.Is(err, model.ErrGone) {
		return model.TapConnection{}, fmt.Errorf("%w: there is no Linux bridge %s on this host: create it (ip link add %[2]s type bridge), or "+
			"name another", model.ErrPermanent, model.Shorten(name))
	}
	if err == nil && link.Kind != kind {
		err = fmt.Errorf("%w: %s is not a Linux bridge: name another, or create one (ip link add NAME type bridge)", model.ErrPermanent, name)
	}
	return model.TapConnection{Switch: name}, err
}

// Routes implements uplink.Reader. It returns the static entries of all bridges.
func (b *Bridge) Routes(ctx context.Context) ([]model.Route, error) {
	entries, err := b.kernel.FDBEntries(ctx)
	out := make([]model.Route, len(entries))
	for i, e := range entries {
		out[i] = model.Route{Network: e.Bridge, MAC: e.MAC, Port: e.Port, VLAN: e.VLAN}
	}
	return out, err
}

// DualPaths implements uplink.Reader.
func (b *Bridge) DualPaths(ctx context.Context) ([]model.DualPath, error) {
	mirrors, err := b.kernel.Mirrors(ctx)
	var out []model.DualPath
	for _, m := range mirrors {
		if m.Mode == mirror.Copy { // those with another mode are of another kind of switch
			out = append(out, model.DualPath{Tap: m.Tap, MAC: m.MAC, PF: m.PF, VLAN: m.VLAN, Detached: m.Detached})
		}
	}
	return out, err
}

// CheckDualPaths implements uplink.Reader.
func (b *Bridge) CheckDualPaths() error { return b.kernel.CheckMirrors() }

// Watch implements uplink.Reader. It is not needed: the kernel reports changes of links and bridge entries.
func (b *Bridge) Watch(context.Context) (<-chan struct{}, error) { return nil, nil }

// gone reports whether the interface certainly does not exist.
func (b *Bridge) gone(ctx context.Context, name string) bool {
	if name == "" {
		return true
	}
	_, err := b.kernel.Link(ctx, name)
	return errors.Is(err, model.ErrGone)
}
