package uplink

import (
	"context"
	"errors"
	"fmt"

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
	for _, u := range s {
		if up, ok := u.PF(links, pf); ok {
			up.Kind = u.Kind()
			return up
		}
	}
	return refuse(links, pf)
}

// refuse returns why no Uplink serves a PF, and the remedy.
func refuse(links *Links, pf *model.PF) model.Uplink {
	link := links.ByName[pf.Name]
	if link == nil {
		return model.Uplink{
			Why:    "the host shows no interface " + pf.Name,
			Remedy: "look whether it is in another network namespace: ip link show " + pf.Name,
		}
	}
	port, master := link, links.Master(link)
	if master != nil && master.Kind == "bond" {
		if port, master = master, links.Master(master); master == nil {
			return model.Uplink{
				Why:    fmt.Sprintf("%s is in bond %s, which is in no bridge", pf.Name, port.Name),
				Remedy: fmt.Sprintf("put the bond into the bridge that the VMs' taps are in: ip link set %s master BRIDGE", port.Name),
			}
		}
	}
	switch {
	case master == nil:
		return model.Uplink{
			Why:    pf.Name + " is in no bridge",
			Remedy: fmt.Sprintf("put it into the bridge that the VMs' taps are in: ip link set %s master BRIDGE", pf.Name),
		}
	case master.Kind == "openvswitch":
		return model.Uplink{
			Why:    port.Name + " is a port of Open vSwitch, which Sluice cannot steer yet",
			Remedy: "connect the PF and the VMs' taps by a Linux bridge",
		}
	}
	return model.Uplink{
		Why:    fmt.Sprintf("%s is in %s (%s), not in a bridge", port.Name, master.Name, master.Kind),
		Remedy: "connect the PF and the VMs' taps by a Linux bridge, directly or through a bond of mode active-backup",
	}
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
