package virtualpf

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/internal/control/vpf"
	"sluice/internal/control/vpf/vpftest"
	"sluice/internal/model"
)

// fakeHost is a host with domains and a switch. It checks its invariant after every change.
type fakeHost struct {
	mu      sync.Mutex
	vms     map[model.VMID]*vpf.VM
	ports   map[string]*model.SwitchPortState
	devices map[string]model.VDPADevice
	next    int                      // ifindex
	defined map[string]bool          // VM/name in the persistent XML
	sockets map[model.VMID]string    // of channels
	macs    map[model.MAC]string     // of NICs in libvirt
	sane    func(h *fakeHost) string // describes a violation of the invariant
	wrong   string
	fail    func(what string) error // returns the error of each call
	calls   int
}

func newFakeHost() *fakeHost {
	return &fakeHost{
		vms: map[model.VMID]*vpf.VM{}, ports: map[string]*model.SwitchPortState{}, devices: map[string]model.VDPADevice{},
		defined: map[string]bool{}, fail: func(string) error { return nil },
	}
}

func (h *fakeHost) alter(what string, fn func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	if err := h.fail(what); err != nil && what != "start" && what != "stop" {
		return err
	}
	err := fn()
	if h.sane != nil && h.wrong == "" {
		if wrong := h.sane(h); wrong != "" {
			h.wrong = what + ": " + wrong
		}
	}
	return err
}

// start runs a VM with the functions of its definitions.
func (h *fakeHost) start(id model.VMID, defs []model.VirtualPF) {
	_ = h.alter("start", func() error {
		vm := &vpf.VM{VM: model.VM{ID: id, Name: "vm-" + string(id), State: model.VMRunning}, Run: fmt.Sprint("run", h.next)}
		for k := range defs {
			p := &defs[k]
			for i := -1; i < len(p.VFs); i++ {
				if i >= 0 && p.Model == model.VPFIGB {
					break
				}
				mac := p.MAC
				if i >= 0 {
					mac = p.VFs[i].MAC
				}
				h.next++
				carrier := model.No
				tap := fmt.Sprint("vnet", h.next%7+100*len(vm.NICs)) // names are reused
				if p.Backend == model.BackendVDPA {
					tap, carrier = "", model.Yes
				}
				vm.NICs = append(vm.NICs, model.NIC{
					Alias: model.VPFAlias(p.Name, i), MAC: mac, Tap: tap, TapIndex: h.next, Network: p.Network, VirtualPF: p.Name, Function: i + 1,
					Carrier: carrier,
				})
			}
		}
		h.vms[id] = vm
		return nil
	})
}

// stop destroys a VM: its taps disappear, and their ports become leftovers.
func (h *fakeHost) stop(id model.VMID) {
	_ = h.alter("stop", func() error {
		if vm := h.vms[id]; vm != nil {
			for _, n := range vm.NICs {
				if p := h.ports[n.Tap]; p != nil && p.Index == n.TapIndex {
					p.Detached = model.Yes
				}
			}
		}
		delete(h.vms, id)
		return nil
	})
}

func (h *fakeHost) look(context.Context) (vpf.World, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var w vpf.World
	for _, vm := range h.vms {
		c := *vm
		c.NICs = slices.Clone(vm.NICs)
		w.VMs = append(w.VMs, c)
	}
	for _, p := range h.ports {
		w.Ports = append(w.Ports, *p)
	}
	for _, d := range h.devices {
		w.VDPA = append(w.VDPA, d)
	}
	slices.SortFunc(w.VMs, func(a, b vpf.VM) int { return vpf.Compare(model.VirtualPF{VM: a.ID}, model.VirtualPF{VM: b.ID}) })
	return w, nil
}

func (h *fakeHost) tapIndex(tap string) int {
	for _, vm := range h.vms {
		for _, n := range vm.NICs {
			if n.Tap == tap {
				return n.TapIndex
			}
		}
	}
	return 0
}

// SetSwitchPort implements Switch.
func (h *fakeHost) SetSwitchPort(_ context.Context, p model.SwitchPort) (model.SwitchPortState, error) {
	var st model.SwitchPortState
	return st, h.alter("set-port", func() error {
		index := h.tapIndex(p.Tap)
		if index == 0 {
			return fmt.Errorf("%s: %w", p.Tap, model.ErrGone)
		}
		st = model.SwitchPortState{SwitchPort: p, Index: index, Detached: model.No, Counts: make([]model.SwitchDrop, len(p.Rules)+1)}
		h.ports[p.Tap] = &st
		return nil
	})
}

// RemoveSwitchPort implements Switch.
func (h *fakeHost) RemoveSwitchPort(_ context.Context, tap string) error {
	return h.alter("remove-port", func() error { delete(h.ports, tap); return nil })
}

// SetLink implements Domains.
func (h *fakeHost) SetLink(_ context.Context, id model.VMID, alias string, up bool) error {
	return h.alter(fmt.Sprint("set-link ", alias, up), func() error {
		vm := h.vms[id]
		if vm == nil {
			return model.ErrGone
		}
		n := vm.FindNIC(alias)
		if n == nil {
			return errors.New("no such NIC")
		}
		n.Carrier = model.TriOf(up)
		return nil
	})
}

// DefineVPF implements Domains.
func (h *fakeHost) DefineVPF(_ context.Context, p *model.VirtualPF) error {
	return h.alter("define", func() error {
		if p.VM == "" {
			p.VM = model.VMID(p.VMName)
		}
		if h.vms[p.VM] != nil {
			return errors.New("the VM runs")
		}
		if p.MAC.IsZero() {
			p.MAC = vpftest.MAC(p.VM, p.Name, -1)
		}
		for i := range p.VFs {
			if p.VFs[i].MAC.IsZero() {
				p.VFs[i].MAC = vpftest.MAC(p.VM, p.Name, i)
			}
		}
		h.defined[string(p.VM)+"/"+p.Name] = true
		return nil
	})
}

// UndefineVPF implements Domains.
func (h *fakeHost) UndefineVPF(_ context.Context, vm model.VMID, name string) error {
	return h.alter("undefine", func() error { delete(h.defined, string(vm)+"/"+name); return nil })
}

// CheckVPF implements Domains.
func (h *fakeHost) CheckVPF(_ context.Context, p *model.VirtualPF) ([]model.Problem, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.defined[string(p.VM)+"/"+p.Name] {
		return []model.Problem{{Subject: p.VMName, Text: p.Name + " is not in the XML"}}, nil
	}
	return nil, nil
}

// MACs implements Domains.
func (h *fakeHost) MACs(context.Context) (map[model.MAC]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.macs), h.fail("macs")
}

// ChannelSocket implements Domains.
func (h *fakeHost) ChannelSocket(_ context.Context, vm model.VMID) (string, error) {
	return h.sockets[vm], nil
}

var testTime = time.Unix(1e9, 0)

func testState(t testing.TB, list ...model.VirtualPF) *vpf.State {
	t.Helper()
	return vpftest.Fill(t, (&vpf.State{}).Clone(), list...)
}
