package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/control/doctor"
	"sluice/internal/control/vpf"
	"sluice/internal/daemon/runner"
	"sluice/internal/daemon/virtualpf"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
	"sluice/internal/model"
)

// vpfHost has one VM with a function, and counts how often its switch ports are read.
type vpfHost struct {
	domains []libvirt.Domain
	unread  []model.VMID
	links   []netdev.Link
	reads   int
}

func (h *vpfHost) Domains(context.Context) ([]libvirt.Domain, error) { return h.domains, nil }

func (h *vpfHost) Unread() []model.VMID { return h.unread }

func (h *vpfHost) Links(context.Context) ([]netdev.Link, error) { return h.links, nil }

func (h *vpfHost) VDPADevices(context.Context) ([]model.VDPADevice, error) { return nil, nil }

func (h *vpfHost) SwitchPorts(context.Context) ([]model.SwitchPortState, error) {
	h.reads++
	return nil, nil
}

// Switch ports are read on request or when a function has changed, and a VM's run is identified by the first of its functions'
// taps.
func TestLooker(t *testing.T) {
	nic := model.NIC{Alias: "ua-vpf-vpf0-pf", Tap: "vnet1", VirtualPF: "vpf0"}
	h := &vpfHost{
		domains: []libvirt.Domain{
			{VM: model.VM{ID: "a", State: model.VMRunning, NICs: []model.NIC{{Alias: "net0", Tap: "vnet0"}, nic}}},
			{VM: model.VM{ID: "b", State: model.VMStopped}},
		},
		links: []netdev.Link{{Name: "vnet0", Index: 3}, {Name: "vnet1", Index: 7}, {Name: "vnet2", Index: 9}},
	}
	l := &looker{domains: h, kernel: h, switches: h, boot: "boot"}
	look := func(fresh bool, run string, reads int) {
		t.Helper()
		w, err := l.World(t.Context(), fresh)
		if err != nil || len(w.VMs) != 1 || w.VMs[0].Run != run || h.reads != reads {
			t.Errorf("%+v, %v, %d reads; want run %q, %d reads", w, err, h.reads, run, reads)
		}
	}
	look(true, "boot/7", 1)
	look(false, "boot/7", 1)
	look(true, "boot/7", 2)
	h.domains[0].NICs[1].Carrier = model.Yes
	look(false, "boot/7", 3)
	h.domains[0].NICs[1].Tap = "vnet2"
	look(false, "boot/9", 4)
	h.links[2].Index = 11 // its VM was restarted, with a tap of the same name
	look(false, "boot/11", 5)
	h.domains[0].NICs[1].Tap = "gone"
	look(false, "", 6)
}

// A domain that libvirt cannot describe at present is named, so that it does not count as gone.
func TestLookerNamesUnreadDomains(t *testing.T) {
	h := &vpfHost{unread: []model.VMID{"a"}}
	w, err := (&looker{domains: h, kernel: h, switches: h, boot: "boot"}).World(t.Context(), true)
	if err != nil || len(w.VMs) != 0 || w.Gone("a") || !w.Gone("b") {
		t.Errorf("%+v, %v", w, err)
	}
}

// fixed is a Source of one empty Snapshot.
type fixed struct{ runner.Source }

func (fixed) Snapshot(context.Context) (*model.Snapshot, error) { return &model.Snapshot{}, nil }

// broken reports for each virtual PF in libvirt that somebody changed it.
type broken struct{ virtualpf.Domains }

func (broken) DefineVPF(_ context.Context, p *model.VirtualPF) error {
	p.VM = "vm"
	return nil
}

func (broken) CheckVPF(_ context.Context, p *model.VirtualPF) ([]model.Problem, error) {
	return []model.Problem{{Subject: p.VMName, Text: p.Name + " was changed", Remedy: "put it back"}}, nil
}

// Doctor reports what differs of virtual PFs in libvirt, with a daemon and without one.
func TestDoctorHasWhatOthersChanged(t *testing.T) {
	dir := t.TempDir()
	store, err := virtualpf.OpenStore(filepath.Join(dir, virtualpf.FileName))
	if err != nil {
		t.Fatal(err)
	}
	m := &virtualpf.Manager{
		Runner: (&virtualpf.Runner{
			Store: store, Domains: broken{}, Log: slog.New(slog.DiscardHandler), Enforce: func() bool { return true },
			Look: func(context.Context, bool) (vpf.World, error) { return vpf.World{}, nil },
		}).Init(),
		Now: time.Now,
	}
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return m.Runner.Run(ctx) })
	g.Go(func() error { return m.Check(ctx) })
	defer func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}()
	p := model.VirtualPF{
		VMName: "node", Name: "vpf0", Model: model.VPFVirtio, Backend: model.BackendTap, Network: "br0", MAC: model.MAC{2},
		VFs: []model.VirtualVF{{MAC: model.MAC{2, 1}}},
	}
	if _, err := m.Define(ctx, p); err != nil {
		t.Fatal(err)
	}
	is := func(p model.Problem) bool {
		return p.Subject == "node" && p.Text == "vpf0 was changed" && p.Remedy == "put it back"
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		snap, err := sharing{fixed{}, m}.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(doctor.Examine(snap), is) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not among %+v", doctor.Examine(snap))
		}
	}
	if have := virtualProblems(ctx, dir, broken{}.CheckVPF); len(have) != 1 || !is(have[0]) {
		t.Errorf("without a daemon: %+v", have)
	}
	if err := os.WriteFile(filepath.Join(dir, virtualpf.FileName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if have := virtualProblems(ctx, dir, broken{}.CheckVPF); len(have) != 1 || !strings.Contains(have[0].Text, "damaged") {
		t.Errorf("of a damaged file: %+v", have)
	}
}
