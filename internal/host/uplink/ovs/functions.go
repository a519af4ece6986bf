package ovs

import (
	"context"
	"errors"
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"sluice/internal/host/uplink"
)

// The programs at the taps of a virtual PF do the same on this switch as on a Linux bridge: with its datapath in the kernel they come
// before it, and they outlive ovs-vswitchd. VLANs are theirs alone, so a port passes all. Only isolation is the switch's.

var _ uplink.FunctionSwitch = (*Switch)(nil)

// FunctionPort implements uplink.FunctionSwitch.
func (s *Switch) FunctionPort(links *uplink.Links, tap string) (at uplink.FunctionPort, ok bool, err error) {
	t, failed := s.db.state()
	p, known := t.ports[tap]
	isPort := known && s.userspace // ports of a datapath in user space have no master
	if link := links.ByName[tap]; link != nil && !isPort {
		m := links.Master(link)
		isPort = m != nil && m.Kind == "openvswitch"
	}
	switch {
	case !isPort:
		return at, false, nil
	case !known && failed != nil:
		return at, false, fmt.Errorf("the database of Open vSwitch does not answer: %w", failed)
	case !known:
		at.Refused = "the database of Open vSwitch does not name its bridge; systemctl status openvswitch-switch"
		return at, true, nil
	}
	return uplink.FunctionPort{Switch: p.bridge.Name, Isolated: t.isolated[p.UUID], Refused: s.noFunction(&t, &p)}, true, nil
}

// noFunction is why a port takes no function of a virtual PF, in the form "why; remedy"; "": it takes one.
func (s *Switch) noFunction(t *topology, p *port) string {
	if p.Tag != nil || len(p.Trunks) > 0 || p.VLANMode != nil && *p.VLANMode != "trunk" {
		return fmt.Sprintf("the port has VLANs of its own beside those of its policy; ovs-vsctl clear port %s tag trunks vlan_mode, "+
			"and set VLANs by `sluice vpf set`", p.Name)
	}
	return s.noFunctions(t, p.bridge)
}

// noFunctions is why a bridge takes no functions of virtual PFs, in the form "why; remedy"; "": it takes them.
func (s *Switch) noFunctions(t *topology, b *bridgeRow) string {
	const another = "; name another bridge, for example a new one: ovs-vsctl add-br NAME"
	switch {
	case b.Name == t.integration:
		return fmt.Sprintf("OVN decides what %s passes, and knows no functions of virtual PFs", b.Name) + another
	case t.neutron[b.Name]:
		return fmt.Sprintf("Neutron's Open vSwitch agent decides what %s passes, and knows no functions of virtual PFs", b.Name) + another
	case inUserspace(b) && !s.userspace:
		return fmt.Sprintf("the datapath of %s is in user space, where no frame passes the programs that hold a function to its policy; "+
			"use Open vSwitch's kernel datapath: ovs-vsctl set bridge %[1]s datapath_type=system", b.Name)
	case managed(b):
		return fmt.Sprintf("a controller decides what %s passes, so that isolation of functions may not hold", b.Name) +
			"; use a bridge without controller and with fail_mode standalone"
	}
	return ""
}

// Isolate implements uplink.FunctionSwitch. It returns when no frame goes by what was in force before. If ovs-vswitchd does not take over
// that a port is isolated, the database does not say so afterwards either.
func (s *Switch) Isolate(ctx context.Context, tap string, on bool) error {
	t, err := s.db.fresh()
	if err != nil {
		return err
	}
	p, known := t.ports[tap]
	if !known {
		return fmt.Errorf("tap %s is no port of Open vSwitch", tap)
	}
	if err = turn(ctx); err == nil {
		err = s.protect(ctx, p.UUID, on)
	}
	if err != nil {
		return fmt.Errorf("set protected=%t of port %s: %w", on, p.Name, err)
	}
	return s.db.until(ctx, func() (bool, error) {
		t, err := s.db.fresh()
		now, known := t.ports[tap]
		return !known || now.Protected == on, err
	})
}

// protect begins or ends the isolation of a port.
func (s *Switch) protect(ctx context.Context, port string, on bool) error {
	op := func(on bool) ovsdb.Operation {
		return ovsdb.Operation{
			Op: ovsdb.OperationUpdate, Table: "Port", Row: ovsdb.Row{"protected": on},
			Where: []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: port})},
		}
	}
	err := s.db.apply(ctx, op(on))
	for range 2 { // a round that ends may have begun before
		if err == nil {
			_, err = appctl(ctx, "revalidator/wait")
		}
	}
	if err != nil && on {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answersWithin)
		defer cancel()
		err = errors.Join(err, s.db.until(ctx, func() (bool, error) { // the connection may have been given up
			err := s.db.transact(ctx, op(false))
			return err == nil, err
		}))
	}
	return err
}
