package actuate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	fdb "sluice/internal/host/bridge"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/mirror"
	"sluice/internal/host/netdev"
	"sluice/internal/host/tap"
	"sluice/internal/host/uplink"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// fakeHost is a host with a bridge br0, a PF pf0 in it with two VFs, and VMs. String prints all of its state that Steps change.
type fakeHost struct {
	cleared  []string                 // taps
	policed  map[string]tap.PathRates // what may come in at representors
	mu       sync.Mutex
	vfs      []fakeVF
	links    []netdev.Link
	fdb      map[model.MAC]string
	selfs    map[model.MAC]bool
	mirrors  map[string]bool
	learning bool
	noMin    bool // the driver has no minimum rates
	vms      []libvirt.Domain
	fail     map[string]error                  // by method
	counted  map[string]uint64                 // of links whose counters are those of the last reading: the frames received then
	gone     func(vm model.VMID, alias string) // how the guest reacts to a detach request
}

type fakeVF struct {
	addr    model.PCIAddress
	driver  string
	mac     model.MAC
	set     vf.Settings
	min     uint64
	open    bool
	changed chan struct{} // closed when open changes
}

func newFakeHost(vms int) *fakeHost {
	f := &fakeHost{
		fdb: map[model.MAC]string{}, selfs: map[model.MAC]bool{}, mirrors: map[string]bool{}, learning: true,
		policed: map[string]tap.PathRates{},
		fail:    map[string]error{},
		links: []netdev.Link{
			{Index: 1, Name: "br0", Kind: "bridge", Up: true, Carrier: true},
			{Index: 2, Name: "pf0", Master: 1, Up: true, Carrier: true},
			{Index: 3, Name: "br7", Kind: "bridge", Up: true, Carrier: true},
		},
	}
	for i := range 2 {
		f.vfs = append(f.vfs, fakeVF{addr: addr(i), driver: "igbvf", changed: make(chan struct{})})
	}
	for n := 1; n <= vms; n++ {
		f.links = append(f.links, netdev.Link{Index: 10 + n, Name: tapName(n), Kind: "tun", Master: 1, Up: true, Carrier: true})
		f.vms = append(f.vms, libvirt.Domain{VM: model.VM{
			ID: id(n), Name: fmt.Sprintf("vm%d", n), State: model.VMRunning,
			NICs: []model.NIC{{Alias: "ua-net0", MAC: mac(n), Tap: tapName(n), Failover: model.FailoverTeaming}},
		}})
	}
	f.gone = func(vm model.VMID, alias string) { f.release(vm, alias) }
	return f
}

func mac(n int) model.MAC         { return model.MAC{0x52, 0x54, 0, 0, 0, byte(n)} }
func tapName(n int) string        { return fmt.Sprintf("tap%d", n) }
func id(n int) model.VMID         { return model.VMID(fmt.Sprintf("id-%d", n)) }
func addr(i int) model.PCIAddress { return model.PCIAddress(fmt.Sprintf("0000:01:10.%d", i)) }

func (f *fakeHost) vf(i int) (*fakeVF, error) {
	if i >= len(f.vfs) {
		return nil, fmt.Errorf("VF %d: %w: %w", i, model.ErrGone, unix.ENODEV)
	}
	return &f.vfs[i], nil
}

func (f *fakeHost) vfAt(addr model.PCIAddress) *fakeVF {
	for i := range f.vfs {
		if f.vfs[i].addr == addr {
			return &f.vfs[i]
		}
	}
	return nil
}

func (f *fakeHost) vm(vm model.VMID) *libvirt.Domain {
	for i := range f.vms {
		if f.vms[i].ID == vm {
			return &f.vms[i]
		}
	}
	return nil
}

func (f *fakeHost) link(name string) *netdev.Link {
	for i := range f.links {
		if f.links[i].Name == name {
			return &f.links[i]
		}
	}
	return nil
}

// setOpen makes the guest's driver open or close a VF.
func (f *fakeHost) setOpen(addr model.PCIAddress, open bool) {
	v := f.vfAt(addr)
	v.open = open
	close(v.changed)
	v.changed = make(chan struct{})
}

// release makes a guest release a device.
func (f *fakeHost) release(vm model.VMID, alias string) {
	d := f.vm(vm)
	for _, h := range d.Hostdevs {
		if h.Alias == alias {
			f.setOpen(h.Address, false)
		}
	}
	d.Hostdevs = slices.DeleteFunc(d.Hostdevs, func(h libvirt.Hostdev) bool { return h.Alias == alias })
}

// vanish removes a VM and its tap.
func (f *fakeHost) vanish(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.vms = slices.DeleteFunc(f.vms, func(d libvirt.Domain) bool { return d.ID == id(n) })
	f.links = slices.DeleteFunc(f.links, func(l netdev.Link) bool { return l.Name == tapName(n) })
	maps.DeleteFunc(f.fdb, func(_ model.MAC, port string) bool { return port == tapName(n) })
	maps.DeleteFunc(f.mirrors, func(m string, _ bool) bool { return strings.HasPrefix(m, tapName(n)+">") })
}

func (f *fakeHost) BindVFIO(_ context.Context, addr model.PCIAddress) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["BindVFIO"]; err != nil {
		return err
	}
	v := f.vfAt(addr)
	if v == nil {
		return fmt.Errorf("bind: %w", model.ErrGone)
	}
	v.driver = "vfio-pci"
	return nil
}

func (f *fakeHost) SetVF(_ context.Context, _ string, i int, s vf.Settings) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["SetVF"]; err != nil {
		return "", err
	}
	v, err := f.vf(i)
	if err == nil {
		v.set = s
	}
	return "rate not enforced", err
}

func (f *fakeHost) SetVFRates(_ context.Context, _ string, i int, want vf.Rates) (vf.Rates, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, err := f.vf(i)
	if err == nil {
		v.set.MaxTxRate, v.min = model.WholeMbit(want.Max), model.WholeMbit(want.Min)
		if f.noMin {
			v.min = 0
		}
		return vf.Rates{Max: v.set.MaxTxRate, Min: v.min}, nil
	}
	return vf.Rates{}, err
}

func (f *fakeHost) SetVFMAC(_ context.Context, _ string, i int, m model.MAC) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["SetVFMAC"]; err != nil {
		return err
	}
	v, err := f.vf(i)
	if err == nil {
		v.mac = m
	}
	return err
}

func (f *fakeHost) ClearVF(_ context.Context, _ string, i int) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["ClearVF"]; err != nil {
		return "", err
	}
	v, err := f.vf(i)
	if err == nil {
		v.mac, v.set = model.MAC{}, vf.Settings{SpoofCheck: true}
	}
	return "", err
}

func (f *fakeHost) PinFDB(_ context.Context, m model.MAC, _ int, port string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["PinFDB"]; err != nil {
		return err
	}
	if err := f.port(port); err != nil {
		return err
	}
	f.fdb[m] = port
	return nil
}

// port fails unless the link exists and is in a bridge.
func (f *fakeHost) port(name string) error {
	switch l := f.link(name); {
	case l == nil:
		return fmt.Errorf("port %s: %w", name, model.ErrGone)
	case !slices.ContainsFunc(f.links, func(br netdev.Link) bool { return br.Index == l.Master && br.Kind == "bridge" }):
		return fmt.Errorf("%s is in no bridge", name)
	}
	return nil
}

func (f *fakeHost) UnpinFDB(_ context.Context, m model.MAC, _ int, port string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fdb[m] == port {
		delete(f.fdb, m)
	}
	return f.fail["UnpinFDB"]
}

func (f *fakeHost) PreparePort(_ context.Context, port string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.port(port); err != nil {
		return err
	}
	f.learning = false
	return f.fail["PreparePort"]
}

// UpdateTap knows only representors, whose names begin with "rep".
func (f *fakeHost) UpdateTap(_ context.Context, name string, edit func(*tap.Policy)) (tap.Policy, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["UpdateTap"]; err != nil {
		return tap.Policy{}, err
	}
	p := tap.Policy{Tap: name, Tx: f.policed[name]}
	edit(&p)
	if f.policed[name] = p.Tx; p.Tx.IsZero() {
		delete(f.policed, name)
	}
	return p, nil
}

func (f *fakeHost) JoinAs(context.Context, string, string) error { panic("there are no representors") }

func (f *fakeHost) Announce(_ context.Context, _ model.MAC, _ int, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fail["Announce"]
}

// uplinks are those of the only kind.
func (f *fakeHost) uplinks() uplink.Set { return uplink.Set{bridge.New(f)} }

func (f *fakeHost) FDBEntries(context.Context) ([]fdb.FDBEntry, error) { panic("not asked") }

func (f *fakeHost) Mirrors(context.Context) ([]mirror.Mirror, error) { panic("not asked") }

func (f *fakeHost) CheckMirrors() error { return nil }

func (f *fakeHost) OpenDualPath(_ context.Context, d mirror.DualPath) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["OpenDualPath"]; err != nil {
		return "", err
	}
	if f.link(d.Tap) == nil {
		return "", fmt.Errorf("link %s: %w", d.Tap, model.ErrGone)
	}
	f.fdb[d.MAC], f.mirrors[d.Tap+">"+d.PF] = d.Tap, true
	return "", nil
}

func (f *fakeHost) CloseDualPath(_ context.Context, d mirror.DualPath) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mirrors, d.Tap+">"+d.PF)
	return f.fail["CloseDualPath"]
}

func (f *fakeHost) AddSelf(_ context.Context, _ string, m model.MAC) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["AddSelf"]; err != nil {
		return err
	}
	f.selfs[m] = true
	return nil
}

func (f *fakeHost) DelSelf(_ context.Context, _ string, m model.MAC) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.selfs, m)
	return f.fail["DelSelf"]
}

func (f *fakeHost) Link(_ context.Context, name string) (netdev.Link, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.link(name); l != nil {
		out := *l
		if was, late := f.counted[name]; late {
			out.Counters.RxPackets, f.counted[name] = was, l.Counters.RxPackets
		}
		return out, f.fail["Link"]
	}
	return netdev.Link{}, fmt.Errorf("link %s: %w", name, model.ErrGone)
}

func (f *fakeHost) Links(context.Context) ([]netdev.Link, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.links), f.fail["Links"]
}

func (f *fakeHost) DriverOpen(_ context.Context, addr model.PCIAddress) (model.Tri, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.vfAt(addr)
	if v == nil {
		return model.Unknown, fmt.Errorf("look at %s: %w", addr, model.ErrGone)
	}
	return model.TriOf(v.open), f.fail["DriverOpen"]
}

func (f *fakeHost) WaitDriver(ctx context.Context, addr model.PCIAddress, open bool) error {
	for {
		f.mu.Lock()
		v := f.vfAt(addr)
		is, changed := v != nil && v.open, (chan struct{})(nil)
		if v != nil {
			changed = v.changed
		}
		f.mu.Unlock()
		if is == open {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("driver of %s: %w: %w", addr, model.ErrGuest, ctx.Err())
		}
	}
}

func (f *fakeHost) Domains(context.Context) ([]libvirt.Domain, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.Clone(f.vms)
	for i := range out {
		out[i].NICs, out[i].Hostdevs = slices.Clone(out[i].NICs), slices.Clone(out[i].Hostdevs)
	}
	return out, f.fail["Domains"]
}

func (f *fakeHost) Attach(_ context.Context, vm model.VMID, spec libvirt.HostdevSpec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["Attach"]; err != nil {
		return err
	}
	d := f.vm(vm)
	if d == nil {
		return fmt.Errorf("attach: %w", model.ErrGone)
	}
	if !slices.ContainsFunc(d.Hostdevs, func(h libvirt.Hostdev) bool { return h.Alias == spec.Alias }) {
		d.Hostdevs = append(d.Hostdevs, libvirt.Hostdev{Alias: spec.Alias, Address: spec.Address, TeamingPersistent: spec.TeamingPersistent})
		f.setOpen(spec.Address, true)
	}
	return nil
}

func (f *fakeHost) Detach(_ context.Context, vm model.VMID, alias string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["Detach"]; err != nil {
		return err
	}
	if f.vm(vm) == nil {
		return fmt.Errorf("detach: %w", model.ErrGone)
	}
	f.gone(vm, alias)
	return nil
}

func (f *fakeHost) WaitGone(ctx context.Context, vm model.VMID, alias string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		f.mu.Lock()
		d, err := f.vm(vm), f.fail["WaitGone"]
		there := d != nil && slices.ContainsFunc(d.Hostdevs, func(h libvirt.Hostdev) bool { return h.Alias == alias })
		f.mu.Unlock()
		switch {
		case err != nil:
			return err
		case d == nil:
			return fmt.Errorf("domain: %w", model.ErrGone)
		case !there:
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", model.ErrGuest, ctx.Err())
		}
	}
}

// String prints the state that Steps change, one item per line.
func (f *fakeHost) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	for i, v := range f.vfs {
		fmt.Fprintf(&b, "vf %d %s", i, v.driver)
		if !v.mac.IsZero() {
			fmt.Fprintf(&b, " mac %s", v.mac)
		}
		if v.set != (vf.Settings{}) {
			fmt.Fprintf(&b, " %+v", v.set)
		}
		if v.open {
			b.WriteString(" open")
		}
		b.WriteString("\n")
	}
	for _, m := range slices.SortedFunc(maps.Keys(f.fdb), byMAC) {
		fmt.Fprintf(&b, "fdb %s %s\n", m, f.fdb[m])
	}
	for _, m := range slices.SortedFunc(maps.Keys(f.selfs), byMAC) {
		fmt.Fprintf(&b, "self %s\n", m)
	}
	for _, m := range slices.Sorted(maps.Keys(f.mirrors)) {
		fmt.Fprintf(&b, "mirror %s\n", m)
	}
	if f.learning {
		b.WriteString("pf0 learns\n")
	}
	for _, d := range f.vms {
		for _, h := range d.Hostdevs {
			fmt.Fprintf(&b, "%s has %s as %s behind %q\n", d.Name, h.Address, h.Alias, h.TeamingPersistent)
		}
	}
	return b.String()
}

func byMAC(a, b model.MAC) int { return slices.Compare(a[:], b[:]) }

func (f *fakeHost) RemoveSwitchPort(_ context.Context, tap string) error {
	f.cleared = append(f.cleared, "port "+tap)
	return f.fail["RemoveSwitchPort"]
}

func (f *fakeHost) RemoveTap(_ context.Context, tap string) error {
	f.cleared = append(f.cleared, tap)
	return f.fail["RemoveTap"]
}

var (
	_ Kernel        = (*fakeHost)(nil)
	_ bridge.Kernel = (*fakeHost)(nil)
	_ Domains       = (*fakeHost)(nil)
)
