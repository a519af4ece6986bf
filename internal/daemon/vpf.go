package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/config"
	"sluice/internal/control/vpf"
	"sluice/internal/daemon/runner"
	"sluice/internal/daemon/virtualpf"
	"sluice/internal/host/kernel"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// virtual creates the controller of virtual PFs.
func (d *daemonState) virtual(c *config.Config) error {
	store, err := virtualpf.OpenStore(filepath.Join(c.StateDir, virtualpf.FileName))
	if err != nil {
		return err
	}
	ports := uplink.FunctionPorts{PortKernel: d.host.kernel, Other: d.host.ovs}
	look := &looker{domains: d.host.virt, kernel: d.host.kernel, switches: ports, boot: hostBoot()}
	runner := (&virtualpf.Runner{
		Store: store, Look: look.World, Switch: ports, Domains: d.host.virt, VDPA: d.host.kernel, Log: d.log,
		Enforce: func() bool { return d.options(d.host.conf.Load()).Mode == model.ModeEnforce },
	}).Init()
	d.vpf = &virtualpf.Manager{
		Runner: runner, Version: d.o.Version, Now: time.Now,
		Policy: func(vm model.VMID, name string) model.GuestPolicy { return d.host.conf.Load().GuestPolicy(vm, name) },
		SLA: func(vm *model.VM, nic *model.NIC) model.SLA {
			rules := d.over.Over(d.host.conf.Load().Rules())
			return rules.SLA(vm, nic)
		},
		HostMACs: hostMACs,
		Count:    d.host.guests.Report,
	}
	return nil
}

// runVirtual runs it until ctx ends. Policies and links stay as they are.
func (d *daemonState) runVirtual(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.vpf.Runner.Run(ctx) })
	g.Go(func() error { return d.vpf.Check(ctx) })
	g.Go(func() error { return d.vpf.Channels(ctx) })
	return g.Wait()
}

// looker reads the state of virtual PFs from the host.
type looker struct {
	domains interface {
		Domains(ctx context.Context) ([]libvirt.Domain, error)
		Unread() []model.VMID
	}
	kernel interface {
		Links(ctx context.Context) ([]netdev.Link, error)
		VDPADevices(ctx context.Context) ([]model.VDPADevice, error)
	}
	switches interface {
		SwitchPorts(ctx context.Context) ([]model.SwitchPortState, error)
	}
	boot string // of the host

	mu    sync.Mutex
	at    time.Time // when ports were read
	seen  string    // the functions at that time
	ports []model.SwitchPortState
}

// portsFor is how long the switch ports of the last read may be reused if no function has changed.
const portsFor = 5 * time.Second

// hostMACs returns the host interface that has each MAC.
func hostMACs() (map[model.MAC]string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	out := make(map[model.MAC]string, len(all))
	for i := range all {
		if len(all[i].HardwareAddr) == len(model.MAC{}) {
			out[model.MAC(all[i].HardwareAddr)] = "interface " + all[i].Name
		}
	}
	return out, nil
}

// hostBoot returns an ID of this run of the host's kernel.
func hostBoot() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it a VM's run is identified by its taps alone
	return strings.TrimSpace(string(id))
}

// World implements virtualpf.Look.
func (l *looker) World(ctx context.Context, fresh bool) (w vpf.World, err error) {
	w.Unread = l.domains.Unread() // before the others: what could be read meanwhile is among them
	domains, err := l.domains.Domains(ctx)
	if err != nil {
		return w, fmt.Errorf("read the domains from libvirt: %w", err)
	}
	w.VMs = make([]vpf.VM, 0, len(domains))
	for i := range domains {
		if domains[i].State != model.VMStopped {
			w.VMs = append(w.VMs, vpf.VM{VM: domains[i].VM})
		}
	}
	functions, err := l.runs(ctx, w.VMs)
	if err != nil {
		return w, err
	}
	if w.Ports, err = l.switchPorts(ctx, functions, fresh); err != nil {
		return w, err
	}
	w.VDPA, err = l.kernel.VDPADevices(ctx)
	return w, err
}

// runs sets the run of each VM that has functions, and returns the functions as text, which differs whenever anything about them
// has changed.
func (l *looker) runs(ctx context.Context, vms []vpf.VM) (functions string, err error) {
	has := func(n model.NIC) bool { return n.VirtualPF != "" }
	if !slices.ContainsFunc(vms, func(vm vpf.VM) bool { return slices.ContainsFunc(vm.NICs, has) }) {
		return "", nil
	}
	links, err := l.kernel.Links(ctx)
	if err != nil {
		return "", err
	}
	index := make(map[string]int, len(links))
	for i := range links {
		index[links[i].Name] = links[i].Index
	}
	for i := range vms {
		vm := &vms[i]
		vm.Run = l.run(&vm.VM, index)
		for k := range vm.NICs {
			if n := &vm.NICs[k]; has(*n) {
				functions += fmt.Sprintf("%s %s %s %d %s\n", vm.ID, n.Alias, n.Tap, index[n.Tap], n.Carrier)
			}
		}
	}
	return functions, nil
}

// switchPorts reads the ports, or returns those of the last read.
func (l *looker) switchPorts(ctx context.Context, functions string, fresh bool) ([]model.SwitchPortState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age := time.Since(l.at); !fresh && functions == l.seen && age < portsFor {
		return l.ports, nil
	}
	l.at = time.Time{}
	ports, err := l.switches.SwitchPorts(ctx)
	if err == nil {
		l.at, l.seen, l.ports = time.Now(), functions, ports
	}
	return ports, err
}

// seenPorts returns the switch ports that the controller of virtual PFs read last, so that they are not read twice.
type seenPorts struct {
	*kernel.Host
	runner *virtualpf.Runner
}

// SwitchPorts returns the ports of the last read.
func (s seenPorts) SwitchPorts(context.Context) ([]model.SwitchPortState, error) {
	v, _ := s.runner.View()
	if v.World == nil {
		return nil, nil // the error is reported elsewhere
	}
	return v.World.Ports, nil
}

// run identifies the run of a VM's QEMU by the lowest interface index of its taps, since the kernel never reuses one; "" if none
// is known.
func (l *looker) run(vm *model.VM, index map[string]int) string {
	first := 0
	for k := range vm.NICs {
		if i := index[vm.NICs[k].Tap]; vm.NICs[k].VirtualPF != "" && i != 0 && (first == 0 || i < first) {
			first = i
		}
	}
	if first == 0 {
		return ""
	}
	return fmt.Sprintf("%s/%d", l.boot, first)
}

// sharing adds to Snapshots the SLA of each function within its virtual PF, and the problems of virtual PFs.
type sharing struct {
	runner.Source
	vpf interface {
		Share(vm model.VMID, nic *model.NIC) model.SLA
		Problems() []model.Problem
	}
}

// Snapshot implements runner.Source.
func (s sharing) Snapshot(ctx context.Context) (*model.Snapshot, error) {
	snap, err := s.Source.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	for vm, n := range snap.NICs() {
		if n.VirtualPF != "" {
			n.Share = s.vpf.Share(vm.ID, n)
		}
	}
	snap.Problems = append(snap.Problems, s.vpf.Problems()...)
	return snap, nil
}

// virtualProblems checks without a daemon which virtual PFs differ from their definitions.
func virtualProblems(ctx context.Context, dir string,
	check func(context.Context, *model.VirtualPF) ([]model.Problem, error),
) (out []model.Problem) {
	store, err := virtualpf.OpenStore(filepath.Join(dir, virtualpf.FileName))
	if err != nil {
		return []model.Problem{{Text: err.Error()}}
	}
	for _, p := range store.State().Virtual {
		out = append(out, virtualpf.Check(ctx, &p, check)...)
	}
	return out
}
