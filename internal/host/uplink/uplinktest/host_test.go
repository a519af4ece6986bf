package uplinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"sluice/internal/host/actuate"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
	"sluice/internal/host/observe"
	"sluice/internal/host/tap"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// host is a kernel without any bridge, whose only PF has two VFs, and a libvirt with VMs on the Fabric. After each change it checks that
// each guest still receives what is sent to it.
type host struct {
	t      *testing.T
	fabric *Fabric

	mu      sync.Mutex
	vfs     []model.VF
	open    map[model.PCIAddress]bool
	domains []libvirt.Domain
	real    *site                     // nil: everything is fake
	fail    func(method string) error // nil: nothing fails
	changes []string
}

func newHost(t *testing.T, vms int) *host {
	h := &host{t: t, fabric: New(), open: map[model.PCIAddress]bool{}}
	for i := range 2 {
		h.vfs = append(h.vfs, model.VF{
			ID: model.VFID{PF: "pf0", Index: i}, Address: model.PCIAddress(fmt.Sprintf("0000:01:10.%d", i)),
			Driver: "vfio-pci",
		})
	}
	for n := range vms {
		tap := fmt.Sprintf("vnet%d", n)
		h.fabric.Plug(tap, 7)
		h.domains = append(h.domains, domain(n, tap, model.MAC{2, 0, 0, 0, 0, byte(n)}))
	}
	h.fabric.Before, h.fabric.After = h.before, h.after
	return h
}

// domain is a VM with one NIC.
func domain(n int, tap string, mac model.MAC) libvirt.Domain {
	return libvirt.Domain{VM: model.VM{
		ID: model.VMID(fmt.Sprintf("id-%d", n)), Name: fmt.Sprintf("vm%d", n), State: model.VMRunning, Ready: model.Yes, VCPUs: 1, NUMANode: -1,
		NICs: []model.NIC{{Alias: "ua-net0", MAC: mac, Tap: tap, Failover: model.FailoverTeaming, FreePort: model.Yes}},
	}}
}

func (h *host) before(method string) error {
	switch {
	case h.real != nil:
		return h.real.process.change(method)
	case h.fail != nil:
		return h.fail(method)
	}
	return nil
}

// after records a change and checks that nobody is cut off: a guest listens on its VF if it has that open, otherwise on its tap.
func (h *host) after(method string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.real != nil {
		return
	}
	h.changes = append(h.changes, method)
	for i := range h.domains {
		nic := &h.domains[i].NICs[0]
		at := nic.Tap
		for _, d := range h.domains[i].Hostdevs {
			vf := &h.vfs[slices.IndexFunc(h.vfs, func(v model.VF) bool { return v.Address == d.Address })]
			if !h.open[d.Address] {
				continue
			}
			at = Representor(vf.ID)
			if vf.MAC != nic.MAC {
				h.t.Errorf("%s: %s uses VF %s, which takes frames for %s", method, h.domains[i].Name, vf.ID, vf.MAC)
			}
		}
		if ports := h.fabric.Reach(nic.MAC, nic.Tap); !slices.Contains(ports, at) {
			h.t.Errorf("%s: %s listens on %s, and its frames go to %v", method, h.domains[i].Name, at, ports)
		}
	}
}

// do applies one change.
func (h *host) do(method string, change func()) error {
	if err := h.before(method); err != nil {
		return err
	}
	h.mu.Lock()
	change()
	h.mu.Unlock()
	h.after(method)
	return nil
}

func (h *host) Links(context.Context) ([]netdev.Link, error) {
	if h.real != nil {
		return h.real.links(), nil
	}
	links := []netdev.Link{{Index: 1, Name: "pf0", Up: true, Carrier: true}}
	for i := range h.domains {
		links = append(links, netdev.Link{Index: 10 + i, Name: h.domains[i].NICs[0].Tap, Kind: "tun", Up: true, Carrier: true})
	}
	return links, nil
}

func (h *host) Watch(context.Context) (<-chan struct{}, error) { return make(chan struct{}), nil }

func (h *host) PFs(context.Context) ([]vf.PFInfo, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pf := vf.PFInfo{PF: model.PF{
		Name: "pf0", Index: 1, Driver: "mlx5_core", Eswitch: model.EswitchSwitchdev, NUMANode: -1, NumVFs: len(h.vfs), TotalVFs: 8, LinkUp: true,
		VFs:  slices.Clone(h.vfs),
		Caps: model.Caps{VFCounters: model.Yes},
	}}
	if h.real != nil {
		h.real.info(&pf)
	}
	return []vf.PFInfo{pf}, nil
}

func (h *host) VFCounters(context.Context, string) (map[int]netdev.Counters, error) { return nil, nil }

func (h *host) PortCounters(context.Context, string) (netdev.Counters, error) {
	return netdev.Counters{}, nil
}

func (h *host) Interrupts(context.Context, model.PCIAddress) (uint64, error) { return 0, nil }

func (h *host) DriverOpen(_ context.Context, vf model.PCIAddress) (model.Tri, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return model.TriOf(h.open[vf]), nil
}

func (h *host) WaitDriver(ctx context.Context, vf model.PCIAddress, open bool) error {
	if is, _ := h.DriverOpen(ctx, vf); is != model.TriOf(open) {
		return model.ErrGuest
	}
	return h.before("WaitDriver")
}

// Link is asked for counters only, which the Fabric does not have.
func (h *host) Link(context.Context, string) (netdev.Link, error) {
	return netdev.Link{}, model.ErrGone
}

func (h *host) BindVFIO(context.Context, model.PCIAddress) error {
	return h.do("BindVFIO", func() {})
}

// set changes a VF, if it is there.
func (h *host) set(method string, i int, change func(*model.VF)) error {
	var gone error
	err := h.do(method, func() {
		if i >= len(h.vfs) {
			gone = fmt.Errorf("VF %d: %w", i, model.ErrGone)
			return
		}
		change(&h.vfs[i])
	})
	return errors.Join(err, gone)
}

func (h *host) SetVF(_ context.Context, _ string, i int, s vf.Settings) (string, error) {
	return "", h.set("SetVF", i, func(vf *model.VF) { vf.VLAN = s.VLAN })
}

func (h *host) SetVFRates(context.Context, string, int, vf.Rates) (vf.Rates, error) {
	return vf.Rates{}, nil
}

func (h *host) SetVFMAC(_ context.Context, _ string, i int, mac model.MAC) error {
	return h.set("SetVFMAC", i, func(vf *model.VF) { vf.MAC = mac })
}

func (h *host) ClearVF(_ context.Context, _ string, i int) (string, error) {
	return "", h.set("ClearVF", i, func(vf *model.VF) { vf.MAC, vf.VLAN = model.MAC{}, 0 })
}

func (h *host) UpdateTap(context.Context, string, func(*tap.Policy)) (tap.Policy, error) {
	return tap.Policy{}, nil
}

func (h *host) RemoveTap(context.Context, string) error { return nil }

func (h *host) RemoveSwitchPort(context.Context, string) error { return nil }

func (h *host) TapPolicies(context.Context) ([]tap.Policy, error) { return nil, nil }

func (h *host) SwitchPorts(context.Context) ([]model.SwitchPortState, error) { return nil, nil }

func (h *host) Domains(context.Context) ([]libvirt.Domain, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := slices.Clone(h.domains)
	for i := range out {
		out[i].NICs, out[i].Hostdevs = slices.Clone(out[i].NICs), slices.Clone(out[i].Hostdevs)
	}
	return out, nil
}

func (h *host) Stats(context.Context) (map[model.VMID]libvirt.Stat, error) { return nil, nil }

func (h *host) Unread() []model.VMID { return nil }

func (h *host) Problems() []model.Problem { return nil }

func (h *host) vm(id model.VMID) *libvirt.Domain {
	return &h.domains[slices.IndexFunc(h.domains, func(d libvirt.Domain) bool { return d.ID == id })]
}

// Attach gives a VF to a guest, which uses it at once.
func (h *host) Attach(_ context.Context, id model.VMID, s libvirt.HostdevSpec) error {
	return h.do("Attach", func() {
		d := h.vm(id)
		if !slices.ContainsFunc(d.Hostdevs, func(x libvirt.Hostdev) bool { return x.Alias == s.Alias }) {
			d.Hostdevs = append(d.Hostdevs, libvirt.Hostdev{Alias: s.Alias, Address: s.Address, TeamingPersistent: s.TeamingPersistent})
			h.open[s.Address] = true
		}
	})
}

func (h *host) Detach(_ context.Context, id model.VMID, alias string) error {
	return h.do("Detach", func() {
		d := h.vm(id)
		for _, x := range d.Hostdevs {
			if x.Alias == alias {
				h.open[x.Address] = false
			}
		}
		d.Hostdevs = slices.DeleteFunc(d.Hostdevs, func(x libvirt.Hostdev) bool { return x.Alias == alias })
	})
}

func (h *host) WaitGone(context.Context, model.VMID, string) error { return h.before("WaitGone") }

// holder returns the VM that has a VF, "" for none.
func (h *host) holder(vf int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.domains {
		for _, d := range h.domains[i].Hostdevs {
			if d.Address == h.vfs[vf].Address {
				return h.domains[i].Name
			}
		}
	}
	return ""
}

var (
	_ observe.Kernel  = (*host)(nil)
	_ observe.Domains = (*host)(nil)
	_ actuate.Kernel  = (*host)(nil)
	_ actuate.Domains = (*host)(nil)
)
