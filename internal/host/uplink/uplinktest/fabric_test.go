package uplinktest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// Kind and Switch are its names.
const (
	Kind   = "test-fabric"
	Switch = "fabric0"
)

// Fabric is a switch that is not an interface of the host, and whose port for each VF is its representor. Code that works with it does not
// depend on a bridge. Its taps are those given to Plug; its only PF is pf0.
type Fabric struct {
	// Before, if set, is called before each change with the name of the method; an error makes the change fail. After is called after it.
	Before func(method string) error
	After  func(method string)

	mu     sync.Mutex
	taps   map[string]int // their VLANs
	off    map[string]bool
	routes map[model.MAC]string
	both   map[dualPath]string // the VF's port
	events chan struct{}
}

type dualPath struct {
	tap string
	mac model.MAC
}

var _ uplink.Uplink = (*Fabric)(nil)

// New makes a Fabric without taps.
func New() *Fabric {
	return &Fabric{taps: map[string]int{}, off: map[string]bool{}, routes: map[model.MAC]string{}, both: map[dualPath]string{}}
}

// Plug makes a tap a port in a VLAN.
func (f *Fabric) Plug(tap string, vlan int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taps[tap] = vlan
}

// Disable makes a tap one that passes no frames.
func (f *Fabric) Disable(tap string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off[tap] = true
}

// Unplug takes a tap away, as when its VM ends.
func (f *Fabric) Unplug(tap string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.taps, tap)
}

// Representor returns the port of a VF.
func Representor(vf model.VFID) string { return fmt.Sprintf("%srep%d", vf.PF, vf.Index) }

// Reach returns the ports that frames for a MAC go to; without a route that is the tap, on which the switch has learned the guest's MAC.
func (f *Fabric) Reach(mac model.MAC, tap string) (ports []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if to, told := f.routes[mac]; told {
		ports = append(ports, to)
	} else {
		ports = append(ports, tap)
	}
	if rep, both := f.both[dualPath{tap, mac}]; both {
		ports = append(ports, tap, rep)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// Kind implements uplink.Uplink.
func (f *Fabric) Kind() string { return Kind }

// PF implements uplink.Reader.
func (f *Fabric) PF(_ *uplink.Links, pf *model.PF) (model.Uplink, bool) {
	if pf.Name != "pf0" {
		return model.Uplink{Why: pf.Name + " is not in the fabric", Remedy: "use pf0"}, false
	}
	for i := range pf.VFs {
		pf.VFs[i].Port = Representor(pf.VFs[i].ID)
	}
	return model.Uplink{Switch: Switch, Representors: true}, true
}

// Tap implements uplink.Reader.
func (f *Fabric) Tap(_ *uplink.Links, tap *netdev.Link) (uplink.Port, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	vlan, ok := f.taps[tap.Name]
	return uplink.Port{Switch: Switch, VLAN: vlan, Up: true}, ok
}

// Connection implements uplink.Reader.
func (f *Fabric) Connection(_ context.Context, name string) (model.TapConnection, error) {
	if name != Switch {
		return model.TapConnection{}, fmt.Errorf("%w: there is no fabric %s: name %s", model.ErrPermanent, name, Switch)
	}
	return model.TapConnection{Switch: name, VirtualPort: Kind}, nil
}

// Routes implements uplink.Reader.
func (f *Fabric) Routes(context.Context) (out []model.Route, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for mac, port := range f.routes {
		out = append(out, model.Route{Network: Switch, MAC: mac, Port: port})
	}
	return out, nil
}

// DualPaths implements uplink.Reader.
func (f *Fabric) DualPaths(context.Context) (out []model.DualPath, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for d := range f.both {
		_, there := f.taps[d.tap]
		out = append(out, model.DualPath{Tap: d.tap, MAC: d.mac, PF: "pf0", Detached: model.TriOf(!there)})
	}
	return out, nil
}

// CheckDualPaths implements uplink.Reader.
func (f *Fabric) CheckDualPaths() error { return nil }

// Watch implements uplink.Reader. Only the latest watch gets events.
func (f *Fabric) Watch(ctx context.Context) (<-chan struct{}, error) {
	events := make(chan struct{}, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = events
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.events == events {
			f.events = nil
		}
		close(events)
	})
	return events, nil
}

// change applies one change and signals it.
func (f *Fabric) change(method string, do func() error) error {
	if f.Before != nil {
		if err := f.Before(method); err != nil {
			return err
		}
	}
	f.mu.Lock()
	err := do()
	select {
	case f.events <- struct{}{}:
	default:
	}
	f.mu.Unlock()
	if f.After != nil {
		f.After(method)
	}
	return err
}

// Check implements uplink.Writer.
func (f *Fabric) Check(_ context.Context, p *model.PathStep) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.taps[p.Tap]; !ok || p.Network != Switch {
		return fmt.Errorf("tap %s is not in %s", p.Tap, p.Network)
	}
	if f.off[p.Tap] {
		return fmt.Errorf("tap %s passes no frames", p.Tap)
	}
	return nil
}

// ToBoth implements uplink.Writer.
func (f *Fabric) ToBoth(_ context.Context, p *model.PathStep) (string, error) {
	return "", f.change("ToBoth", func() error {
		if _, there := f.taps[p.Tap]; !there {
			return fmt.Errorf("tap %s is not in the fabric", p.Tap)
		}
		f.both[dualPath{p.Tap, p.MAC}] = p.Port()
		return nil
	})
}

// ToOne implements uplink.Writer. If the tap is gone, no route remains.
func (f *Fabric) ToOne(_ context.Context, p *model.PathStep) error {
	return f.change("ToOne", func() error {
		delete(f.both, dualPath{p.Tap, p.MAC})
		if _, there := f.taps[p.Tap]; !there {
			delete(f.routes, p.MAC)
		}
		return nil
	})
}

// ToTap implements uplink.Writer.
func (f *Fabric) ToTap(_ context.Context, p *model.PathStep) error {
	return f.change("ToTap", func() error {
		if _, there := f.taps[p.Tap]; !there {
			delete(f.routes, p.MAC)
			return nil
		}
		f.routes[p.MAC] = p.Tap
		return nil
	})
}

// ToVF implements uplink.Writer.
func (f *Fabric) ToVF(_ context.Context, p *model.PathStep) error {
	return f.change("ToVF", func() error {
		f.routes[p.MAC] = p.Port()
		return nil
	})
}

// Back implements uplink.Writer.
func (f *Fabric) Back(_ context.Context, p *model.PathStep) error {
	return f.change("Back", func() error {
		if p.VirtioRoute == "" {
			delete(f.routes, p.MAC)
			return nil
		}
		f.routes[p.MAC] = p.VirtioRoute
		return nil
	})
}

// FromNIC implements uplink.Writer. With representors the NIC passes all frames to the switch, so it does nothing.
func (f *Fabric) FromNIC(context.Context, *model.PathStep) (string, error) { return "", nil }

// NotFromNIC implements uplink.Writer.
func (f *Fabric) NotFromNIC(context.Context, *model.PathStep) error { return nil }

// Announce implements uplink.Writer.
func (f *Fabric) Announce(context.Context, *model.PathStep) error { return nil }
