package measure

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/host/kernel/frames"
	"sluice/internal/host/tap"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/model"
)

// leastPackets is the lowest limit that is tried, packets/s.
const leastPackets = 1000

// packets tries a limit at a VF's representor with small frames from it to another VF, through the bridge that their representors are
// ports of. If the NIC forwards the frames itself, the host cannot limit them.
func (r *run) packets(ctx context.Context) error {
	if !r.Uplink.Representors {
		return nil
	}
	p := &r.m.Packets
	ready := r.usable()
	switch {
	case !r.bridged():
		p.Error = r.vmsOnly()
		return nil
	case len(ready) < lendMost:
		p.Error = "not tried: it needs two free VFs that the host has a driver for"
		if why := r.unusable(); why != noInterface {
			p.Error = "not tried: " + why
		}
		return nil
	}
	a, b := ready[0], ready[1]
	f := frames.Frame{To: b.mac, From: a.mac}
	return r.limit(ctx, p, limitTrial{
		name:   "a limit at its representor",
		flood:  func() (float64, error) { return r.space.Flood(ctx, a.name, b.name, f, floodFor) },
		choose: func(quarter uint64) uint64 { return max(leastPackets, quarter) },
		set:    func(limit uint64) error { return r.police(ctx, a.was.Port, limit) },
	})
}

// bridged reports whether the switch passes frames of representors that no VM has: a Linux bridge does.
func (r *run) bridged() bool { return r.Uplink.Kind == bridge.Kind }

// vmsOnly is why a check that needs the switch is not tried.
func (r *run) vmsOnly() string {
	return "not tried: frames of these VFs pass " + r.Uplink.Switch + " as those of VMs only"
}

// hostEnd is the host's interface at which frames of a VF arrive, and out of which the host sends frames to it.
func (r *run) hostEnd(l *lent) string {
	if r.Uplink.Representors {
		return l.was.Port
	}
	return r.PF
}

// connect sets the representors of the VFs up, without which a VF has no link, and makes them ports of the switch if it passes their
// frames.
func (r *run) connect(ctx context.Context) error {
	if !r.Uplink.Representors {
		return nil
	}
	for _, l := range r.vfs {
		l.apart = "its representor was not connected"
		err := r.step(ctx, "connecting the representor of VF "+l.was.ID.String(), func() error {
			err := r.join(ctx, l)
			l.apart = ""
			if err != nil {
				l.apart = err.Error()
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// join makes the representor of a VF a port of the bridge, which then sends frames for the VF's MAC there; behind another switch, it sets
// it up. One that was a port before is left as it was.
func (r *run) join(ctx context.Context, l *lent) error {
	switch {
	case l.was.Port == "":
		return fmt.Errorf("VF %s has no representor in this network namespace", l.was.ID)
	case l.was.Alone && !r.bridged():
		return r.Kernel.SetUp(ctx, l.was.Port)
	case l.was.Alone:
		if err := r.Kernel.Join(ctx, l.was.Port, r.Uplink.Switch); err != nil {
			return err
		}
	case l.was.Down:
		return fmt.Errorf("representor %s, a port of a bridge, is set down: ip link set %[1]s up", l.was.Port)
	case !r.bridged():
		return nil
	}
	return r.Kernel.PinFDB(ctx, l.mac, 0, l.was.Port)
}

// police limits what comes in at a representor, in packets/s; 0: no limit.
func (r *run) police(ctx context.Context, representor string, packets uint64) error {
	_, err := r.Kernel.UpdateTap(ctx, representor, func(p *tap.Policy) {
		p.Tx = tap.PathRates{Contract: model.Rate{Packets: packets}}
	})
	return err
}

// foundPort records the state of a VF's representor.
func (r *run) foundPort(ctx context.Context, found *Found) error {
	if !r.Uplink.Representors || found.Port == "" {
		return nil
	}
	l, err := r.Kernel.Link(ctx, found.Port)
	found.Alone, found.Down = l.Master == 0, !l.Up
	return err
}

// representor removes what the measurement has put at the representor of a VF; it stays a port until the VF is as it was.
func (r *restorer) representor(ctx context.Context, was *Found) error {
	if was.Port == "" {
		return nil
	}
	if _, err := r.k.Link(ctx, was.Port); errors.Is(err, model.ErrGone) {
		return nil
	}
	err := r.k.RemoveTap(ctx, was.Port)
	for i := range r.j.VFs {
		err = errors.Join(err, r.k.UnpinFDB(ctx, r.j.address(i), 0, was.Port))
	}
	return err
}

// leave takes the representor of a VF out of the bridge that the measurement has put it into, also if somebody else uses the VF by now:
// what that sends must not come into a bridge that it was not in.
func (r *restorer) leave(ctx context.Context, was *Found) error {
	if was.Port == "" || !was.Alone {
		return nil
	}
	l, err := r.k.Link(ctx, was.Port)
	switch {
	case errors.Is(err, model.ErrGone) || err == nil && l.Master == 0 && l.Up != was.Down:
		return nil
	case err != nil:
		return err
	case l.Master != 0 && r.j.Switch != "": // a journal of an older version has none
		to, err := r.k.Link(ctx, r.j.Switch)
		if errors.Is(err, model.ErrGone) || err == nil && to.Index != l.Master {
			return nil // somebody else has put it elsewhere
		}
		if err != nil {
			return err
		}
	}
	return r.k.Leave(ctx, was.Port, was.Down)
}
