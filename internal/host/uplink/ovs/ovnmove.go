package ovs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"sluice/internal/host/mirror"
	"sluice/internal/model"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

const (
	setUpWithin = 4 * time.Second // ovn-controller and the switch, after a move; less than a Step may take
	attempts    = 10              // to change rows that others change too
)

// join makes a representor a port of OVN's bridge, where it stays. Nobody's bridge is robbed of it.
func (o *OVN) join(ctx context.Context, p *model.PathStep) error {
	if err := errNoRepresentor(p); err != nil {
		return err
	}
	rep := p.Uplink
	t, err := o.db.fresh()
	if err != nil {
		return err
	}
	at, isPort := t.ports[rep]
	switch {
	case t.integration == "":
		return fmt.Errorf("%w: OVN does not use this host any more", model.ErrPermanent)
	case isPort && at.bridge.Name != t.integration:
		return fmt.Errorf("%w: representor %s is in %s, not in %s: ovs-vsctl del-port %[2]s", model.ErrPermanent, rep, at.bridge.Name,
			t.integration)
	}
	if err := o.kernel.SetUp(ctx, rep); err != nil || isPort {
		return err
	}
	if err := o.db.addPort(ctx, t.integration, rep); err != nil {
		return fmt.Errorf("put representor %s into %s: %w", rep, t.integration, err)
	}
	return o.db.until(ctx, func() (bool, error) {
		t, err := o.db.fresh()
		return t.ports[rep].bridge != nil, err
	})
}

// halves returns the two programs of a dual path.
func halves(p *model.PathStep) [2]mirror.DualPath {
	return [2]mirror.DualPath{
		{MAC: p.MAC, Tap: p.Tap, PF: p.PF, Port: p.Uplink, Representor: true, Mode: mirror.All},
		{MAC: p.MAC, Tap: p.Uplink, PF: p.PF, Port: p.Tap, Representor: true, Mode: mirror.Sent},
	}
}

// ToBoth implements uplink.Writer. The logical port is at the tap then: what leaves there is copied to the VF, and what the VF sends
// comes in there, so that both hold whatever the guest uses.
func (o *OVN) ToBoth(ctx context.Context, p *model.PathStep) (note string, err error) {
	if err := o.join(ctx, p); err != nil {
		return "", err
	}
	for _, d := range halves(p) {
		if err := o.kernel.Steer(ctx, d); err != nil {
			return "", err
		}
	}
	return "", o.ToTap(ctx, p)
}

// ToOne implements uplink.Writer. If the VM is gone, its logical port leaves the representor too: another host may have it now.
func (o *OVN) ToOne(ctx context.Context, p *model.PathStep) error {
	mirrors, err := o.kernel.Mirrors(ctx)
	for _, m := range mirrors {
		if m.MAC == p.MAC && (m.Mode == mirror.All && m.Tap == p.Tap || m.Mode == mirror.Sent && m.Port == p.Tap) {
			err = errors.Join(err, o.kernel.CloseDualPath(ctx, m.DualPath))
		}
	}
	if err != nil || p.Tap != "" && !o.gone(ctx, p.Tap) {
		return err
	}
	return o.release(ctx, p)
}

// release takes the logical ports of taps that are gone from the representors that have them.
func (o *OVN) release(ctx context.Context, p *model.PathStep) error {
	_, err := o.change(ctx, func(t topology) (edits []edit, err error) {
		for name, i := range t.interfaces {
			tap := i.IDs[ofTap]
			if tap != "" && (tap == p.Tap || i.IDs[ofMAC] == p.MAC.String() || name == p.Uplink) && o.gone(ctx, tap) {
				edits = append(edits, edit{name, i.IDs, released(i.IDs)})
			}
		}
		return edits, nil
	})
	return err
}

// ToVF implements uplink.Writer. It returns when the switch sends the guest's frames to the representor.
func (o *OVN) ToVF(ctx context.Context, p *model.PathStep) error {
	if err := o.join(ctx, p); err != nil {
		return err
	}
	if err := o.release(ctx, p); err != nil { // of an earlier VM
		return err
	}
	t, err := o.change(ctx, func(t topology) ([]edit, error) {
		tap, rep := t.interfaces[p.Tap], t.interfaces[p.Uplink]
		if tap == nil || rep == nil {
			return nil, fmt.Errorf("tap %s or representor %s is no port of Open vSwitch", p.Tap, p.Uplink)
		}
		newTap, newRep, err := toRepresentor(tap.IDs, rep.IDs, p.Tap, p.MAC)
		if err != nil {
			return nil, fmt.Errorf("representor %s: %w", p.Uplink, err)
		}
		if was := rep.IDs[ifaceID]; was != "" && was != newRep[ifaceID] {
			o.db.log.Warn("somebody gave the tap another logical port; its VF follows", "tap", p.Tap, "was", was, "is", newRep[ifaceID])
		}
		edits := []edit{{p.Tap, tap.IDs, newTap}, {p.Uplink, rep.IDs, newRep}}
		for _, other := range t.movedFrom(p.Tap) { // the VM had another VF
			if other.Name != p.Uplink {
				edits = append(edits, edit{other.Name, other.IDs, released(other.IDs)})
			}
		}
		return edits, nil
	})
	if err != nil {
		return err
	}
	rep := t.interfaces[p.Uplink]
	if rep == nil {
		return fmt.Errorf("representor %s: %w", p.Uplink, errChanged)
	}
	return o.settled(ctx, p, p.Uplink, rep.IDs[ifaceID])
}

// ToTap implements uplink.Writer. If the tap is gone, it only ensures that the logical port is at no representor.
func (o *OVN) ToTap(ctx context.Context, p *model.PathStep) error {
	if o.gone(ctx, p.Tap) {
		return o.release(ctx, p)
	}
	wait := false
	t, err := o.change(ctx, func(t topology) (edits []edit, err error) {
		tap := t.interfaces[p.Tap]
		if tap == nil {
			return nil, nil
		}
		var rep ids
		for _, r := range t.movedFrom(p.Tap) {
			if rep == nil || rep[ifaceID] == "" {
				rep = r.IDs
			}
			wait = wait || r.IDs[installed] == "true"
			edits = append(edits, edit{r.Name, r.IDs, released(r.IDs)})
		}
		if was, is := tap.IDs[keptAs], toTap(tap.IDs, rep)[ifaceID]; was != "" && was != is {
			o.db.log.Warn("somebody changed the logical port while its VM was on a VF; it stays so", "tap", p.Tap, "was", was, "is", is)
		}
		return append(edits, edit{p.Tap, tap.IDs, toTap(tap.IDs, rep)}), nil
	})
	tap := t.interfaces[p.Tap]
	if err != nil || tap == nil || tap.IDs[ifaceID] == "" {
		return err
	}
	o.mu.Lock()
	wait = wait || o.pending[tap.IDs[ifaceID]]
	o.mu.Unlock()
	if !wait { // OVN had no such port before either
		return nil
	}
	return o.settled(ctx, p, p.Tap, tap.IDs[ifaceID])
}

// Back implements uplink.Writer. On virtio, the logical port is always at the tap.
func (o *OVN) Back(ctx context.Context, p *model.PathStep) error { return o.ToTap(ctx, p) }

// change makes all edits in one transaction, and returns the topology after it. It decides anew when somebody else was faster.
func (o *OVN) change(ctx context.Context, decide func(topology) ([]edit, error)) (t topology, err error) {
	for range attempts {
		if t, err = o.db.fresh(); err != nil {
			return t, err
		}
		edits, err := decide(t)
		if err != nil {
			return t, err
		}
		var ops []ovsdb.Operation
		moved := ""
		for _, e := range edits {
			if maps.Equal(e.from, e.to) {
				continue
			}
			more, err := e.ops()
			if err != nil {
				return t, err
			}
			ops = append(ops, more...)
			if id := e.to[ifaceID]; id != "" && id != e.from[ifaceID] {
				moved = id
			}
		}
		if len(ops) == 0 {
			return t, nil
		}
		if moved != "" {
			o.mu.Lock()
			o.pending[moved] = true
			o.mu.Unlock()
		}
		switch err := o.db.transact(ctx, ops...); {
		case errors.Is(err, errChanged):
			continue
		case err != nil:
			return t, err
		}
		err = o.db.until(ctx, func() (bool, error) {
			for _, e := range edits {
				if now, known, err := o.db.ids(ctx, e.name); err != nil || known && now[ifaceID] != e.to[ifaceID] {
					return false, err
				}
			}
			return true, nil
		})
		if err != nil {
			return t, err
		}
		return o.db.fresh()
	}
	return t, errChanged
}

// settled waits until ovn-controller has put the flows of a logical port into the switch, and the switch goes by them.
func (o *OVN) settled(ctx context.Context, p *model.PathStep, name, id string) error {
	limit, cancel := context.WithTimeout(ctx, setUpWithin)
	defer cancel()
	err := o.db.until(limit, func() (bool, error) {
		now, known, err := o.db.ids(limit, name)
		return !known || now[ifaceID] != id || now[installed] == "true", err
	})
	if t, _ := o.db.state(); err == nil {
		err = goesByFlows(ctx, t.integration, name, p.MAC)
	} else if ctx.Err() == nil {
		err = errSlow
	}
	if err != nil {
		return fmt.Errorf("logical port %s is at %s in the database now, but: %w", model.Shorten(id), name, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.pending, id)
	return nil
}
