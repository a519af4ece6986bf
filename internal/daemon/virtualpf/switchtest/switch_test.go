// Package switchtest tests the controller of virtual PFs on the kernel's switch.
package switchtest

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sluice/internal/channel"
	"sluice/internal/control/vpf"
	"sluice/internal/daemon/virtualpf"
	"sluice/internal/host/kernel"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

// domains are in memory; tests only look at the link state.
type domains struct {
	virtualpf.Domains
	mu sync.Mutex
	vm *model.VM
}

func (d *domains) DefineVPF(context.Context, *model.VirtualPF) error { return nil }

func (d *domains) MACs(context.Context) (map[model.MAC]string, error) { return nil, nil }

func (d *domains) SetLink(_ context.Context, _ model.VMID, alias string, up bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.vm.FindNIC(alias).Carrier = model.TriOf(up)
	return nil
}

func (d *domains) carrier(alias string) model.Tri {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.vm.FindNIC(alias).Carrier
}

// begin starts a controller over a kernel.
func begin(t *testing.T, k *kernel.Host, d *domains, path string) (*virtualpf.Manager, func()) {
	t.Helper()
	store, err := virtualpf.OpenStore(path)
	if err != nil {
		t.Fatal(err)
	}
	look := func(ctx context.Context, _ bool) (w vpf.World, err error) {
		d.mu.Lock()
		if d.vm != nil {
			vm := vpf.VM{VM: *d.vm, Run: "run"}
			vm.NICs = append([]model.NIC(nil), d.vm.NICs...)
			w.VMs = []vpf.VM{vm}
		}
		d.mu.Unlock()
		w.Ports, err = k.SwitchPorts(ctx)
		return w, err
	}
	m := &virtualpf.Manager{
		Runner: (&virtualpf.Runner{
			Store: store, Look: look, Switch: k, Domains: d, Log: slog.New(slog.DiscardHandler),
			Enforce: func() bool { return true },
		}).Init(),
		Policy: func(model.VMID, string) model.GuestPolicy {
			return model.GuestPolicy{Attach: true, MACs: []string{"02:*"}, VLANs: model.VLANs{{First: 10, Last: 20}}, NoSpoofCheck: true}
		},
		SLA:      func(*model.VM, *model.NIC) model.SLA { return model.SLA{} },
		HostMACs: func() (map[model.MAC]string, error) { return nil, nil }, Now: time.Now,
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = m.Runner.Run(ctx) }()
	return m, func() { cancel(); <-done }
}

func until(t *testing.T, m *virtualpf.Manager, what string, ok func() bool) {
	t.Helper()
	for deadline := time.After(time.Minute); !ok(); {
		_, next := m.Runner.View()
		select {
		case <-next:
		case <-deadline:
			list, _ := m.List(t.Context())
			t.Fatalf("never: %s: %+v", what, list)
		}
	}
}

var (
	pfMAC, vfMAC = model.MAC{0x52, 0x54, 0, 0, 0, 1}, model.MAC{0x52, 0x54, 0, 0, 0, 2}
	outMAC       = model.MAC{0x52, 0x54, 0, 0, 0, 9}
)

// The kernel reports every policy exactly as the controller set it; a controller leaves the work of a killed one unchanged; and the
// policy ends with the VM.
func TestPoliciesStandInTheKernel(t *testing.T) {
	k, err := kernel.New(kernel.Options{BPFFS: kerneltest.BPFFS(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	kerneltest.NewBridge(t, "br0")
	pf, vf, out := kerneltest.NewPort(t, "vnet0", "br0"), kerneltest.NewPort(t, "vnet1", "br0"), kerneltest.NewPort(t, "out0", "br0")
	p := model.VirtualPF{
		VM: "vm", VMName: "vm", Name: "vpf0", Model: model.VPFVirtio, Backend: model.BackendTap, Network: "br0", MAC: pfMAC,
		VFs: []model.VirtualVF{{MAC: vfMAC}}, Channel: true,
	}
	d := &domains{}
	path := filepath.Join(t.TempDir(), virtualpf.FileName)
	m, stop := begin(t, k, d, path)
	if _, err := m.Define(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	d.vm = &model.VM{ID: "vm", Name: "vm", State: model.VMRunning, NICs: []model.NIC{
		{Alias: p.PFAlias(), MAC: pfMAC, Tap: "vnet0", Network: "br0", VirtualPF: "vpf0", Carrier: model.No},
		{Alias: p.VFAlias(0), MAC: vfMAC, Tap: "vnet1", Network: "br0", VirtualPF: "vpf0", Function: 1, Carrier: model.No},
	}}
	d.mu.Unlock()
	m.Runner.Wake()
	until(t, m, "the PF is up", func() bool { return d.carrier(p.PFAlias()) == model.Yes })
	guest, yes, no := m.Guest("vm"), true, false
	for _, a := range []channel.Attach{
		{},
		{MAC: "02:00:00:00:00:01", VLAN: 10},
		{Trunk: "15,11-12,13-14", Isolated: &yes},
		{SpoofChk: &no},
		{CheckARP: &yes, Addresses: []string{"10.0.0.2", "fd00::2", "10.0.0.1"}},
		{Limit: "1Mbit 1kpps", Weight: 0.5},
	} {
		a.VF, a.Owner = channel.VF{PF: pfMAC.String()}, "pod"
		if _, err := guest.Attach(t.Context(), a); err != nil || d.carrier(p.VFAlias(0)) != model.Yes {
			t.Errorf("%+v: %v", a, err)
		}
	}
	if _, err := guest.Attach(t.Context(), channel.Attach{VF: channel.VF{PF: pfMAC.String()}, Owner: "pod", VLAN: 10}); err != nil {
		t.Fatal(err)
	}
	stop() // and start the next
	m, stop = begin(t, k, d, path)
	defer func() { stop() }()
	until(t, m, "everything is in force", func() bool {
		list, _ := m.List(t.Context())
		return len(list) == 1 && list[0].Running && list[0].Functions[0].InForce && list[0].Functions[1].InForce
	})
	// VLAN 10 for the VF, none for the PF, each with only its own MAC.
	for _, text := range []string{"again", "and again"} {
		vf.Send(t, kerneltest.Frame(outMAC, pfMAC, "spoofed"))
		vf.Send(t, kerneltest.Frame(outMAC, vfMAC, text))
		frame := kerneltest.Frame(outMAC, vfMAC, text)
		out.Expect(t, append(append(append([]byte{}, frame[:12]...), 0x81, 0, 0, 10), frame[12:]...))
	}
	pf.Send(t, kerneltest.Frame(outMAC, vfMAC, "spoofed"))
	pf.Send(t, kerneltest.Frame(outMAC, pfMAC, "from the PF"))
	out.Expect(t, kerneltest.Frame(outMAC, pfMAC, "from the PF"))
	m.Runner.Wake()
	until(t, m, "drops are counted", func() bool {
		list, _ := m.List(t.Context())
		return list[0].Functions[1].Drops.Spoof == 2 && list[0].Functions[0].Drops.Spoof == 1
	})
	d.mu.Lock()
	d.vm = nil
	d.mu.Unlock()
	_, _ = pf.Close(), vf.Close()
	m.Runner.Wake()
	until(t, m, "nothing is left", func() bool {
		ports, err := k.SwitchPorts(t.Context())
		return err == nil && len(ports) == 0 && m.Runner.Store.State().Virtual[0].VFs[0].Grant == nil
	})
}
