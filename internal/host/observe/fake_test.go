package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	fdb "sluice/internal/host/bridge"
	"sluice/internal/host/guest"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// fakeWorld is a host whose kernel, libvirt and guests answer as the test specifies. It counts the queries.
type fakeWorld struct {
	mu         sync.Mutex
	links      []netdev.Link
	pfs        []vf.PFInfo
	fdb        []fdb.FDBEntry
	open       map[model.PCIAddress]model.Tri
	counters   map[model.VFID]netdev.Counters
	ports      map[string]netdev.Counters // PFs with port counters
	interrupts map[model.PCIAddress]uint64
	domains    []libvirt.Domain
	stats      map[model.VMID]libvirt.Stat
	unread     []model.VMID
	problems   []model.Problem
	fail       map[string]error // by query
	asked      map[string]int
	watch      chan struct{}
	inside     map[model.VMID]func(context.Context) ([]guest.Counters, error)
	shuffle    *rand.Rand // nil: in order
}

func newFakeWorld() *fakeWorld {
	return &fakeWorld{
		open:     map[model.PCIAddress]model.Tri{},
		counters: map[model.VFID]netdev.Counters{}, ports: map[string]netdev.Counters{}, interrupts: map[model.PCIAddress]uint64{},
		stats: map[model.VMID]libvirt.Stat{},
		fail:  map[string]error{}, asked: map[string]int{}, watch: make(chan struct{}, 1),
		inside: map[model.VMID]func(context.Context) ([]guest.Counters, error){},
	}
}

// ask counts a query and returns its error. The caller holds the lock.
func (f *fakeWorld) ask(what string) error {
	f.asked[what]++
	return f.fail[what]
}

// mixed returns a copy, in random order if the world shuffles.
func mixed[T any](f *fakeWorld, in []T) []T {
	out := slices.Clone(in)
	if f.shuffle != nil {
		f.shuffle.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	return out
}

func (f *fakeWorld) Links(context.Context) ([]netdev.Link, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return mixed(f, f.links), f.ask("links")
}

func (f *fakeWorld) Watch(context.Context) (<-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watch, f.ask("watch")
}

func (f *fakeWorld) PFs(context.Context) ([]vf.PFInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return mixed(f, f.pfs), f.ask("pfs")
}

func (f *fakeWorld) VFCounters(_ context.Context, pf string) (map[int]netdev.Counters, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[int]netdev.Counters{}
	for id, c := range f.counters {
		if id.PF == pf {
			out[id.Index] = c
		}
	}
	return out, f.ask("counters " + pf)
}

func (f *fakeWorld) DriverOpen(_ context.Context, addr model.PCIAddress) (model.Tri, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open[addr], f.ask("open " + string(addr))
}

func (f *fakeWorld) PortCounters(_ context.Context, pf string) (netdev.Counters, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.ports[pf]
	if !ok {
		return c, errors.Join(f.ask("port "+pf), errors.ErrUnsupported)
	}
	return c, f.ask("port " + pf)
}

func (f *fakeWorld) Interrupts(_ context.Context, addr model.PCIAddress) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.interrupts[addr], f.ask("interrupts " + string(addr))
}

// uplinks are those of the only kind: Linux bridges.
func (f *fakeWorld) uplinks() uplink.Set { return uplink.Set{bridge.New(bridgeKernel{nil, f})} }

// bridgeKernel is a kernel that only answers where bridges send frames.
type bridgeKernel struct {
	bridge.Kernel
	world *fakeWorld
}

func (k bridgeKernel) FDBEntries(ctx context.Context) ([]fdb.FDBEntry, error) {
	return k.world.FDBEntries(ctx)
}

func (f *fakeWorld) FDBEntries(context.Context) ([]fdb.FDBEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return mixed(f, f.fdb), f.ask("fdb")
}

func (f *fakeWorld) Domains(context.Context) ([]libvirt.Domain, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := mixed(f, f.domains)
	for i := range out {
		out[i].NICs = slices.Clone(out[i].NICs)
		out[i].Hostdevs = mixed(f, out[i].Hostdevs)
	}
	return out, f.ask("domains")
}

func (f *fakeWorld) Stats(context.Context) (map[model.VMID]libvirt.Stat, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.stats), f.ask("stats")
}

func (f *fakeWorld) Unread() []model.VMID { return f.unread }

func (f *fakeWorld) Problems() []model.Problem { return f.problems }

func (f *fakeWorld) Interfaces(ctx context.Context, vm model.VMID) ([]guest.Counters, error) {
	f.mu.Lock()
	err := f.ask("guest " + string(vm))
	answer := f.inside[vm]
	f.mu.Unlock()
	if answer == nil {
		return nil, errors.Join(err, errors.New("no agent"))
	}
	return answer(ctx)
}

func mac(n int) model.MAC { return model.MAC{0x52, 0x54, 0, 0, byte(n >> 8), byte(n)} }

func addr(n int) model.PCIAddress {
	return model.PCIAddress(fmt.Sprintf("0000:01:%02x.%d", 16+n/8, n%8))
}

// addPF adds a PF with VFs to a bridge, and the bridge if it is new.
func (f *fakeWorld) addPF(name, bridge string, vfs int, caps model.Caps) *vf.PFInfo {
	pf := vf.PFInfo{PF: model.PF{
		Name: name, Index: 100 + len(f.pfs), Driver: "ixgbe", NumVFs: vfs, TotalVFs: 8, Speed: 10e9, NUMANode: -1, Caps: caps,
	}}
	for i := range vfs {
		pf.VFs = append(pf.VFs, model.VF{
			ID: model.VFID{PF: name, Index: i}, Address: addr(len(f.pfs)*64 + i), Driver: "vfio-pci",
		})
	}
	pf.Uses = make([]vf.Use, vfs)
	f.pfs = append(f.pfs, pf)
	f.links = append(f.links, netdev.Link{Index: pf.Index, Name: name, Master: f.bridge(bridge), Up: true, Carrier: true})
	return &f.pfs[len(f.pfs)-1]
}

// bridge returns the ifindex of a bridge, 0 for "".
func (f *fakeWorld) bridge(name string) int {
	if name == "" {
		return 0
	}
	if l := f.link(name); l != nil {
		return l.Index
	}
	l := netdev.Link{Index: 10 + len(f.links), Name: name, Kind: "bridge", Up: true, Carrier: true}
	f.links = append(f.links, l)
	return l.Index
}

func (f *fakeWorld) link(name string) *netdev.Link {
	for i := range f.links {
		if f.links[i].Name == name {
			return &f.links[i]
		}
	}
	return nil
}

// addVM adds a running machine with one virtio NIC on a tap in the bridge. It can
// fail over and its agent is connected.
func (f *fakeWorld) addVM(n int, bridge string) *libvirt.Domain {
	id := model.VMID(fmt.Sprintf("id-%03d", n))
	tap := fmt.Sprintf("vnet%d", n)
	f.domains = append(f.domains, libvirt.Domain{VM: model.VM{
		ID: id, Name: fmt.Sprintf("vm%d", n), State: model.VMRunning, Ready: model.Yes, VCPUs: 2, NUMANode: -1,
		NICs: []model.NIC{{
			Alias: "ua-net0", MAC: mac(n), Tap: tap, Network: "xml-" + bridge, Failover: model.FailoverTeaming, FreePort: model.Yes,
		}},
	}})
	f.links = append(f.links, netdev.Link{Index: 1000 + n, Name: tap, Kind: "tun", Master: f.bridge(bridge), Up: true, Carrier: true})
	f.stats[id] = libvirt.Stat{CPUKnown: true, State: model.VMRunning}
	return f.dom(n)
}

func (f *fakeWorld) dom(n int) *libvirt.Domain {
	id := model.VMID(fmt.Sprintf("id-%03d", n))
	for i := range f.domains {
		if f.domains[i].ID == id {
			return &f.domains[i]
		}
	}
	return nil
}

// attach gives a VF to a VM the way Sluice does.
func (f *fakeWorld) attach(n int, vf model.PCIAddress) {
	d := f.dom(n)
	d.Hostdevs = append(d.Hostdevs, libvirt.Hostdev{
		Alias: model.PassthroughAlias(mac(n)), Address: vf, TeamingPersistent: "ua-net0",
	})
	f.open[vf] = model.Yes
}

// tapMoves adds what a guest received and sent over its tap.
func (f *fakeWorld) tapMoves(n int, rx, tx uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &f.link(fmt.Sprintf("vnet%d", n)).Counters
	c.TxPackets, c.TxBytes = c.TxPackets+rx, c.TxBytes+rx*100
	c.RxPackets, c.RxBytes = c.RxPackets+tx, c.RxBytes+tx*100
}

func (f *fakeWorld) count(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[what]
}

func (f *fakeWorld) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// text prints the relevant parts of a Snapshot, one line each.
func text(s *model.Snapshot) string {
	var b strings.Builder
	for _, pf := range s.PFs {
		fmt.Fprintf(&b, "pf %s net=%s up=%v managed=%v self=%v\n", pf.Name, pf.Network, pf.LinkUp, pf.Managed, pf.SelfFDB)
		for _, v := range pf.VFs {
			fmt.Fprintf(&b, "  vf %d %s", v.ID.Index, v.Owner)
			if v.Holder != "" {
				fmt.Fprintf(&b, " holder=%s inguest=%s", v.Holder, v.InGuest)
			}
			if v.OwnerWhy != "" {
				fmt.Fprintf(&b, " (%s)", v.OwnerWhy)
			}
			b.WriteString("\n")
		}
	}
	for _, vm := range s.VMs {
		fmt.Fprintf(&b, "vm %s %s", vm.Name, vm.State)
		if vm.CPUKnown {
			fmt.Fprintf(&b, " cpu=%.2f", vm.CPU)
		}
		b.WriteString("\n")
		for _, n := range vm.NICs {
			fmt.Fprintf(&b, "  nic %s net=%s failover=%s link=%s vf=%s", n.Alias, n.Network, n.Failover, n.LinkUp, n.VF)
			if n.VF != model.NoVF {
				fmt.Fprintf(&b, " as %s (%s)", n.VFAlias, n.VFOwner)
			}
			if n.Route != "" {
				b.WriteString(" fdb=" + n.Route)
			}
			b.WriteString("\n")
			traffic(&b, "virtio", n.Virtio)
			traffic(&b, "vf", n.VFPath)
		}
	}
	for _, p := range s.Routes {
		fmt.Fprintf(&b, "pin %s in %s to %s vlan %d\n", p.MAC, p.Network, p.Port, p.VLAN)
	}
	problems(&b, s.Problems)
	return b.String()
}

func traffic(b *strings.Builder, path string, t model.Traffic) {
	if t.Known {
		fmt.Fprintf(b, "    %s rx=%.0f tx=%.0f by %s proof=%s", path, t.RxPPS, t.TxPPS, t.Source, t.Proof)
	} else if t.Note != "" {
		fmt.Fprintf(b, "    %s unknown", path)
	} else {
		return
	}
	if t.Note != "" {
		b.WriteString(": " + t.Note)
	}
	b.WriteString("\n")
}

func problems(b *strings.Builder, ps []model.Problem) {
	for _, p := range ps {
		fmt.Fprintf(b, "problem %s: %s\n", p.Subject, p.Text)
	}
}

var (
	_ Kernel  = (*fakeWorld)(nil)
	_ Domains = (*fakeWorld)(nil)
	_ Guests  = (*fakeWorld)(nil)
)
