package uplink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"sluice/internal/host/netdev"
	"sluice/internal/model"
)

// Set is the list of Uplinks in order of priority. It reads them all, and finds the Writer for a Step.
type Set []Uplink

// Find sets how a PF is connected. If no Uplink serves the PF, it sets the reason and the remedy.
func (s Set) Find(links *Links, pf *model.PF) {
	pf.Uplink = s.find(links, pf)
	pf.Network = pf.Uplink.Switch
}

func (s Set) find(links *Links, pf *model.PF) model.Uplink {
	if links.ByName[pf.Name] == nil {
		return model.Uplink{
			Why:    "this host has no interface " + pf.Name,
			Remedy: "check whether it is in another network namespace: ip link show " + pf.Name,
		}
	}
	why, remedies := "nothing that Sluice can steer connects "+pf.Name, []string(nil)
	for i, u := range s {
		up, ok := u.PF(links, pf)
		if ok {
			up.Kind = u.Kind()
			if pf.Eswitch == model.EswitchOnCard {
				up.Why, up.Passes = onCard(pf), false
				up.Remedy = "use Sluice in mode observe; for VFs, set the card to the mode in which the host manages its embedded switch (NIC mode)"
			}
			return up
		}
		if i == 0 {
			why = up.Why
		}
		if up.Remedy != "" {
			remedies = append(remedies, up.Remedy)
		}
	}
	return model.Uplink{Why: why, Remedy: cmp.Or(strings.Join(remedies, ", or "), "connect it by a Linux bridge")}
}

// onCard is why the VFs of a DPU are not used.
func onCard(pf *model.PF) string {
	return "the card's own processors steer what VFs of " + pf.Name + " send and receive, as on a DPU: their representors are not on this host"
}

// Tap returns the port and switch of a tap; false: no known switch has it.
func (s Set) Tap(links *Links, tap *netdev.Link) (Port, bool) {
	for _, u := range s {
		if p, ok := u.Tap(links, tap); ok {
			return p, true
		}
	}
	return Port{}, false
}

// Connection returns how a VM's definition connects a tap to the switch of that name.
func (s Set) Connection(ctx context.Context, name string) (c model.TapConnection, err error) {
	for _, u := range s {
		found, failed := u.Connection(ctx, name)
		switch {
		case failed == nil:
			return found, nil
		case errors.Is(failed, ErrAbsent) && err != nil: // nobody asked for it
		case err == nil:
			err = failed
		default:
			err = fmt.Errorf("%w, or %w", err, failed)
		}
	}
	return c, err
}

// Routes returns the routes of all switches, in the order of the Uplinks.
func (s Set) Routes(ctx context.Context) ([]model.Route, error) {
	return gather(s, func(u Uplink) ([]model.Route, error) { return u.Routes(ctx) })
}

// DualPaths returns the dual paths of all switches.
func (s Set) DualPaths(ctx context.Context) ([]model.DualPath, error) {
	return gather(s, func(u Uplink) ([]model.DualPath, error) {
		list, err := u.DualPaths(ctx)
		for i := range list {
			list[i].Kind = u.Kind()
		}
		return list, err
	})
}

func gather[T any](s Set, read func(Uplink) ([]T, error)) (all []T, err error) {
	for _, u := range s {
		list, failed := read(u)
		all, err = append(all, list...), errors.Join(err, failed)
	}
	return all, err
}

// CheckDualPaths returns the first reason why dual paths would end with this process.
func (s Set) CheckDualPaths() error {
	for _, u := range s {
		if err := u.CheckDualPaths(); err != nil {
			return err
		}
	}
	return nil
}

// Watch reports changes that kernel.Host.Watch does not report. The channels are closed when ctx ends.
func (s Set) Watch(ctx context.Context) (all []<-chan struct{}, err error) {
	for _, u := range s {
		ch, failed := u.Watch(ctx)
		if err = errors.Join(err, failed); ch != nil {
			all = append(all, ch)
		}
	}
	return all, err
}

// Writer returns the Writer for a Step's frames. A Step without a kind uses the first Uplink.
func (s Set) Writer(p *model.PathStep) (Writer, error) {
	for _, u := range s {
		if p.Kind == u.Kind() || p.Kind == "" {
			return u, nil
		}
	}
	return nil, fmt.Errorf("%w: nothing steers an uplink of kind %q", model.ErrPermanent, p.Kind)
}
