package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/host/kernel/frames"
	"sluice/internal/host/netdev"
	"sluice/internal/host/tap"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// errKilled is the value with which a fake panics in place of kill -9.
var errKilled = errors.New("killed")

// fake is a host whose NIC behaves like an emulated igb: it accepts max_tx_rate without enforcing it, rejects min_tx_rate, has no VF
// counters and few filters.
type fake struct {
	pf    vf.PFInfo
	over  []string // driver_override of each VF
	in    []string // its interface: "" none, "host", "up", "away" in a container, or the name in the Space
	open  []bool   // a process has it open
	held  map[model.PCIAddress]string
	space *fakeSpace
	ports []fakePort // the representors of its VFs; nil: it is in mode legacy
	alone bool       // its embedded switch forwards frames between VFs by itself
	busy  bool       // it sends little in the next second with a limit

	calls int
	at    func(call int, what string) error // before each change; nil: nothing happens
	wrong []string                          // changes of a VF that somebody else uses
	late  bool                              // what comes now had looked before
}

// fakePort is the representor of a VF.
type fakePort struct {
	master  int // 7: br0
	up      bool
	mute    bool // the bridge does not learn from it
	pins    []model.MAC
	packets uint64 // packets/s that it lets in, 0: all
}

// newSwitchdev makes a host whose NIC is in mode switchdev. The representors of VFs 4 and 6 are in no bridge, that of VF 5 is a port.
func newSwitchdev() *fake {
	f := newFake()
	f.pf.Uplink = model.Uplink{Kind: bridge.Kind, Switch: "br0", Port: "pf0", Representors: true}
	f.ports = make([]fakePort, len(f.pf.VFs))
	for i := range f.pf.VFs {
		f.pf.VFs[i].Port = fmt.Sprintf("rep%d", i)
	}
	f.ports[5] = fakePort{master: 7, up: true, pins: []model.MAC{{2, 8}}}
	return f
}

// newUnderOVN is the same under OVN.
func newUnderOVN() *fake {
	f := newSwitchdev()
	f.pf.Uplink.Kind, f.pf.Uplink.Switch = "ovn", "br-int"
	return f
}

const slots = 16

func newFake() *fake {
	f := &fake{held: map[model.PCIAddress]string{}}
	f.pf.PF = model.PF{
		Name: "pf0", MAC: model.MAC{2, 0, 0, 0, 0, 1}, Driver: "igb", NumVFs: 7, Speed: 1e9, LinkUp: true, SelfSlots: slots,
		SelfFDB: []model.MAC{{2, 9}},
	}
	f.pf.Caps = model.Caps{MaxTxRate: model.Yes, MinTxRate: model.No, VFCounters: model.No, Trust: model.Yes}
	for i := range 7 {
		vf := model.VF{
			ID: model.VFID{PF: "pf0", Index: i}, Address: model.PCIAddress(fmt.Sprintf("0000:01:10.%d", i)), Driver: "vfio-pci",
			SpoofCheck: model.Yes, Trust: model.No,
		}
		f.pf.VFs = append(f.pf.VFs, vf)
	}
	f.pf.Uses = make([]vf.Use, 7)
	f.over, f.in, f.open = make([]string, 7), make([]string, 7), make([]bool, 7)
	f.over[6] = "vfio-pci"
	f.pf.VFs[5].Driver, f.in[5] = "igbvf", "host"
	f.pf.VFs[5].VLAN, f.pf.VFs[5].Trust, f.pf.VFs[5].SpoofCheck, f.pf.VFs[5].MaxTxRate = 7, model.Yes, model.No, 100e6
	return f
}

// String returns the state that must be restored.
func (f *fake) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, "filters", f.pf.SelfFDB)
	for i := range f.pf.VFs {
		v := &f.pf.VFs[i]
		fmt.Fprintln(&b, v.ID, v.Driver, f.over[i], v.MAC, v.VLAN, v.MinTxRate, v.MaxTxRate, v.SpoofCheck, v.Trust, f.in[i])
	}
	fmt.Fprintln(&b, f.ports)
	return b.String()
}

// port finds a representor.
func (f *fake) port(name string) *fakePort {
	for i := range f.ports {
		if f.pf.VFs[i].Port == name {
			return &f.ports[i]
		}
	}
	return nil
}

func (f *fake) changePort(ctx context.Context, name, what string, edit func(*fakePort)) error {
	p := f.port(name)
	if p == nil {
		return model.ErrGone
	}
	if err := f.change(ctx, what); err != nil {
		return err
	}
	edit(p)
	return nil
}

func (f *fake) Link(_ context.Context, name string) (netdev.Link, error) {
	p := f.port(name)
	switch {
	case name == "br0":
		return netdev.Link{Name: name, Index: 7}, nil
	case p == nil:
		return netdev.Link{}, model.ErrGone
	}
	return netdev.Link{Name: name, Master: p.master, Up: p.up}, nil
}

func (f *fake) SetUp(ctx context.Context, name string) error {
	return f.changePort(ctx, name, "set up", func(p *fakePort) { p.up = true })
}

func (f *fake) Join(ctx context.Context, dev, bridge string) error {
	if bridge != "br0" {
		return errors.New("another bridge")
	}
	return f.changePort(ctx, dev, "join", func(p *fakePort) { p.master, p.up, p.mute = 7, true, true })
}

func (f *fake) Leave(ctx context.Context, dev string, down bool) error {
	return f.changePort(ctx, dev, "leave", func(p *fakePort) { p.master, p.up, p.mute, p.pins = 0, p.up && !down, false, nil })
}

func (f *fake) PinFDB(ctx context.Context, mac model.MAC, _ int, port string) error {
	return f.changePort(ctx, port, "pin", func(p *fakePort) { p.pins = append(p.pins, mac) })
}

func (f *fake) UnpinFDB(ctx context.Context, mac model.MAC, _ int, port string) error {
	return f.changePort(ctx, port, "unpin", func(p *fakePort) {
		p.pins = slices.DeleteFunc(slices.Clone(p.pins), func(m model.MAC) bool { return m == mac })
	})
}

func (f *fake) UpdateTap(ctx context.Context, name string, edit func(*tap.Policy)) (tap.Policy, error) {
	var policy tap.Policy
	edit(&policy)
	err := f.changePort(ctx, name, "police", func(p *fakePort) { p.packets = policy.Tx.Contract.Packets })
	return policy, err
}

func (f *fake) RemoveTap(ctx context.Context, name string) error {
	return f.changePort(ctx, name, "remove police", func(p *fakePort) { p.packets = 0 })
}

func (f *fake) byAddress(addr model.PCIAddress) int {
	for i := range f.pf.VFs {
		if f.pf.VFs[i].Address == addr {
			return i
		}
	}
	return -1
}

// change is called before each change.
func (f *fake) change(ctx context.Context, what string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.calls++
	if f.at != nil {
		if err := f.at(f.calls, what); err != nil {
			return err
		}
	}
	return nil
}

// touch records a change of a VF that somebody else uses. A step that checked earlier cannot know that.
func (f *fake) touch(vf int, what string) {
	if f.inUse(vf) && !f.late {
		f.wrong = append(f.wrong, fmt.Sprintf("%s of VF %d", what, vf))
	}
}

func (f *fake) inUse(vf int) bool {
	_, held := f.held[f.pf.VFs[vf].Address]
	return held || f.open[vf] || f.in[vf] == "up" || f.in[vf] == "away"
}

// Looker

func (f *fake) PFs(context.Context) ([]vf.PFInfo, error) {
	out := f.pf
	out.VFs, out.Uses = append([]model.VF(nil), f.pf.VFs...), make([]vf.Use, len(f.pf.VFs))
	for i := range out.Uses {
		switch {
		case vf.PassesThrough(out.VFs[i].Driver) || out.VFs[i].Driver == "":
		case f.in[i] == "host" || f.in[i] == "up":
			out.Uses[i] = vf.Use{HostNetdev: fmt.Sprintf("eth%d", i), HostNetdevUp: f.in[i] == "up"}
		default:
			out.Uses[i].OtherNetns = true
		}
	}
	return []vf.PFInfo{out}, nil
}

func (f *fake) Hardware(context.Context, string) (vf.Hardware, error) {
	return vf.Hardware{Driver: "igb", Device: "8086:10c9", Kernel: "6.12", Emulated: true}, nil
}

func (f *fake) VFCounters(context.Context, string) (map[int]netdev.Counters, error) {
	return map[int]netdev.Counters{5: {}, 6: {}}, nil
}

func (f *fake) DriverOpen(_ context.Context, addr model.PCIAddress) (model.Tri, error) {
	return model.TriOf(f.open[f.byAddress(addr)]), nil
}

// Drivers

func (f *fake) drive(ctx context.Context, addr model.PCIAddress, driver, in string) error {
	i := f.byAddress(addr)
	if err := f.change(ctx, "driver"); err != nil {
		return err
	}
	if f.open[i] {
		return unix.EBUSY // the kernel would wait until the call's deadline
	}
	f.touch(i, "driver")
	f.pf.VFs[i].Driver, f.in[i] = driver, in
	return nil
}

func (f *fake) BindVFIO(ctx context.Context, addr model.PCIAddress) error {
	if i := f.byAddress(addr); vf.PassesThrough(f.pf.VFs[i].Driver) {
		return nil
	}
	err := f.drive(ctx, addr, "vfio-pci", "")
	if err == nil {
		f.over[f.byAddress(addr)] = ""
	}
	return err
}

func (f *fake) BindHost(ctx context.Context, addr model.PCIAddress, _ string) error {
	i := f.byAddress(addr)
	if d := f.pf.VFs[i].Driver; d != "" && !vf.PassesThrough(d) {
		return nil
	}
	err := f.drive(ctx, addr, "igbvf", "host")
	if err == nil {
		f.over[i] = ""
	}
	return err
}

func (f *fake) Unbind(ctx context.Context, addr model.PCIAddress) error {
	return f.drive(ctx, addr, "", "")
}

func (f *fake) DriverOverride(addr model.PCIAddress) (string, error) {
	return f.over[f.byAddress(addr)], nil
}

func (f *fake) SetDriverOverride(ctx context.Context, addr model.PCIAddress, driver string) error {
	i := f.byAddress(addr)
	if err := f.change(ctx, "override"); err != nil {
		return err
	}
	f.touch(i, "override")
	f.over[i] = driver
	return nil
}

func (f *fake) MoveLink(ctx context.Context, name, as string, _ int) error {
	for i := range f.in {
		if name != fmt.Sprintf("eth%d", i) {
			continue
		}
		if err := f.change(ctx, "move"); err != nil {
			return err
		}
		if vf.PassesThrough(f.pf.VFs[i].Driver) {
			return model.ErrGone
		}
		f.touch(i, "move")
		f.in[i] = as
		return nil
	}
	return model.ErrGone
}

// Settings

func (f *fake) set(ctx context.Context, idx int, what string, edit func(*model.VF)) error {
	if err := f.change(ctx, what); err != nil {
		return err
	}
	f.touch(idx, what)
	edit(&f.pf.VFs[idx])
	return nil
}

func (f *fake) SetVF(ctx context.Context, _ string, idx int, s vf.Settings) (string, error) {
	return "", f.set(ctx, idx, "settings", func(v *model.VF) {
		v.VLAN, v.SpoofCheck, v.Trust, v.MaxTxRate, v.MinTxRate = s.VLAN, model.TriOf(s.SpoofCheck), model.TriOf(s.Trust), s.MaxTxRate, 0
	})
}

func (f *fake) SetVFMAC(ctx context.Context, _ string, idx int, mac model.MAC) error {
	return f.set(ctx, idx, "mac", func(v *model.VF) { v.MAC = mac })
}

func (f *fake) ClearVF(ctx context.Context, _ string, idx int) (string, error) {
	return "", f.set(ctx, idx, "clear", func(v *model.VF) {
		v.MAC, v.VLAN, v.MaxTxRate, v.MinTxRate, v.SpoofCheck, v.Trust = model.MAC{}, 0, 0, 0, model.Yes, model.No
	})
}

func (f *fake) TryVFRates(ctx context.Context, _ string, idx int, want vf.Rates) (vf.Rates, error) {
	if want.Min > 0 {
		return vf.Rates{Max: f.pf.VFs[idx].MaxTxRate}, fmt.Errorf("set rate: %w", unix.EINVAL)
	}
	err := f.set(ctx, idx, "rates", func(v *model.VF) { v.MaxTxRate = want.Max })
	return vf.Rates{Max: f.pf.VFs[idx].MaxTxRate}, err
}

// Filters

func (f *fake) Selfs(context.Context, string) ([]model.MAC, error) {
	return append([]model.MAC(nil), f.pf.SelfFDB...), nil
}

func (f *fake) AddSelf(ctx context.Context, _ string, mac model.MAC) error {
	if len(f.pf.SelfFDB) >= slots {
		return fmt.Errorf("add filter: %w", unix.ENOMEM)
	}
	if err := f.change(ctx, "add filter"); err != nil {
		return err
	}
	f.pf.SelfFDB = append(f.pf.SelfFDB, mac)
	return nil
}

func (f *fake) DelSelf(ctx context.Context, _ string, mac model.MAC) error {
	if err := f.change(ctx, "remove filter"); err != nil {
		return err
	}
	for i, m := range f.pf.SelfFDB {
		if m == mac {
			f.pf.SelfFDB = append(f.pf.SelfFDB[:i:i], f.pf.SelfFDB[i+1:]...)
			break
		}
	}
	return nil
}

// fakeSpace is the Space of a fake.
type fakeSpace struct {
	f      *fake
	closed bool
}

func (f *fake) newSpace() (Space, error) {
	f.space = &fakeSpace{f: f}
	return f.space, nil
}

func (s *fakeSpace) FD() int { return 99 }

func (s *fakeSpace) Has(name string) bool {
	for _, in := range s.f.in {
		if in == name {
			return true
		}
	}
	return false
}

func (s *fakeSpace) Up(context.Context, string) error { return nil }

// Close returns interfaces to the host, as the kernel does when the process dies.
func (s *fakeSpace) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	for i, in := range s.f.in {
		if in != "" && in != "up" && in != "away" {
			s.f.in[i] = "host"
		}
	}
	return nil
}

// Pass simulates a NIC that forwards frames between VFs and PF by filters and addresses.
func (s *fakeSpace) Pass(ctx context.Context, from, to string, fr frames.Frame, n int) (int, error) {
	if err := s.f.change(ctx, "frames"); err != nil {
		return 0, err
	}
	if !s.there(from) || !s.there(to) {
		return 0, model.ErrGone
	}
	if s.f.ports != nil {
		return s.byPort(from, to, fr, n), nil
	}
	target := fr.To == s.f.pf.MAC && to == "pf0"
	for i := range s.f.pf.VFs {
		v := &s.f.pf.VFs[i]
		if s.f.in[i] == from && v.SpoofCheck == model.Yes && fr.From != v.MAC {
			return 0, nil
		}
		target = target || s.f.in[i] == to && v.MAC == fr.To
	}
	for _, m := range s.f.pf.SelfFDB {
		target = target || m == fr.To && to == "pf0"
	}
	if target || fr.To == broadcast && from == "pf0" {
		return n, nil
	}
	return 0, nil
}

// there reports whether there is such an interface.
func (s *fakeSpace) there(name string) bool {
	return name == "pf0" || s.Has(name) || s.f.port(name) != nil
}

// byPort simulates a NIC that forwards frames between each VF and its representor only.
func (s *fakeSpace) byPort(from, to string, fr frames.Frame, n int) int {
	at := func(name string) (vf *model.VF, p *fakePort) {
		for i := range s.f.ports {
			if v := &s.f.pf.VFs[i]; s.f.in[i] == name || v.Port == name {
				return v, &s.f.ports[i]
			}
		}
		return nil, nil
	}
	a, in := at(from)
	b, out := at(to)
	switch {
	case in == nil || out == nil || !in.up || !out.up: // the PF's own interface leads to the wire
		return 0
	case from != a.Port && a.SpoofCheck == model.Yes && fr.From != a.MAC:
		return 0
	case a == b && from != to || in.master != 0 && in.master == out.master && slices.Contains(out.pins, fr.To) && to != b.Port:
		return n
	}
	return 0
}

func (s *fakeSpace) Flood(ctx context.Context, from, to string, fr frames.Frame, _ time.Duration) (float64, error) {
	passed := 5000.0
	for i := range s.f.ports {
		if s.f.in[i] == from && s.f.ports[i].packets > 0 && (!s.f.alone || s.f.busy) {
			passed, s.f.busy = min(passed, float64(s.f.ports[i].packets)), false
		}
		if s.f.in[i] == to && !slices.Contains(s.f.ports[i].pins, fr.To) {
			passed = 0
		}
	}
	return passed, s.f.change(ctx, "flood")
}
