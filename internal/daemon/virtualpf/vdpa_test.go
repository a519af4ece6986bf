package virtualpf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/channel"
	"sluice/internal/control/vpf"
	"sluice/internal/control/vpf/vpftest"
	"sluice/internal/model"
)

// CreateVDPA implements VDPA.
func (h *fakeHost) CreateVDPA(_ context.Context, want model.VDPAWant) (model.VDPADevice, error) {
	d := model.VDPADevice{
		Name: want.Name, Manager: want.Manager, MAC: want.MAC, Driver: "vhost_vdpa", Node: "/dev/vhost-vdpa-0", Linked: true,
		InUse: model.No,
	}
	return d, h.alter("make-device", func() error { h.devices[want.Name] = d; return nil })
}

// DeleteVDPA implements VDPA.
func (h *fakeHost) DeleteVDPA(_ context.Context, name string) error {
	return h.alter("remove-device", func() error { delete(h.devices, name); return nil })
}

// VDPADevices lists the devices.
func (h *fakeHost) VDPADevices(ctx context.Context) ([]model.VDPADevice, error) {
	w, err := h.look(ctx)
	return w.VDPA, err
}

const vdpaVM = model.VMID("0a1b2c3d-0000-4000-8000-000000000001")

func vdpaPF(name string, vfs int) model.VirtualPF {
	p := vpftest.PF(vdpaVM, name, vfs)
	p.Backend, p.Network = model.BackendVDPA, "pci/0000:03:00.*"
	vpf.VDPADefaults(&p)
	return p
}

// Policies that the host cannot enforce on frames that bypass it are rejected with an explanation.
func TestPolicyOnVDPA(t *testing.T) {
	good := vdpaPF("vpf0", 1)
	if err := vpf.CheckDefinition(&good); err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func(*model.PortPolicy){
		"spoof check":  func(p *model.PortPolicy) { p.NoSpoofCheck = false },
		"further MACs": func(p *model.PortPolicy) { p.MACs = []model.MAC{vpftest.MAC("x", "y", 1)} },
		"VLANs":        func(p *model.PortPolicy) { p.VLAN = 5 },
		"ARP":          func(p *model.PortPolicy) { p.CheckARP = true },
		"addresses":    func(p *model.PortPolicy) { p.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.1")} },
		"isolation":    func(p *model.PortPolicy) { p.Isolated = true },
		"rates":        func(p *model.PortPolicy) { p.SLA.Limit.Bits = 1e6 },
		"link state":   func(p *model.PortPolicy) { p.Link = model.LinkDown },
	} {
		p := vdpaPF("vpf0", 2)
		spoil(&p.VFs[1].Port)
		if err := vpf.CheckDefinition(&p); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "VF 1") {
			t.Errorf("%s: %v", what, err)
		}
		s := (&vpf.State{}).Clone()
		p.VFs[1].Grant, p.VFs[1].Port = &model.VFGrant{Port: p.VFs[1].Port}, p.VFs[0].Port
		s.Put(p)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s, granted: %v", what, err)
		}
		if what != "link state" && what != "spoof check" {
			tap := vpftest.PF(vdpaVM, "vpf0", 2)
			spoil(&tap.VFs[1].Port)
			if err := vpf.CheckDefinition(&tap); err != nil {
				t.Errorf("%s on a tap: %v", what, err)
			}
		}
	}
}

// vdpaBench drives a Core with a fakeHost, one second per tick.
type vdpaBench struct {
	t     *testing.T
	host  *fakeHost
	core  *vpf.Core
	state *vpf.State
	now   time.Time
}

func (b *vdpaBench) tick() (out vpf.Result, did []string) {
	w, err := b.host.look(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	b.now = b.now.Add(time.Second)
	out = b.core.Tick(b.now, b.state, &w)
	r := Runner{Switch: b.host, Domains: b.host, VDPA: b.host, Log: slog.New(slog.DiscardHandler)}
	for _, a := range out.Actions {
		did = append(did, fmt.Sprint(a.Kind, " ", a.Device.Name, a.Alias))
		b.core.Finish(b.now, a, r.do(b.t.Context(), &a))
	}
	slices.Sort(did)
	return out, did
}

func (b *vdpaBench) want(did []string, want ...string) {
	b.t.Helper()
	if !slices.Equal(did, want) {
		b.t.Errorf("did %q, want %q", did, want)
	}
}

// Devices exist as long as their definition, and are recreated when they are lost.
func TestDevicesOfDefinitions(t *testing.T) {
	b := &vdpaBench{t: t, host: newFakeHost(), core: vpf.NewCore(), state: testState(t, vdpaPF("vpf0", 1)), now: time.Unix(1e9, 0)}
	foreign := model.VDPADevice{Name: "vdpa0", Driver: "vhost_vdpa"}
	b.host.devices["vdpa0"] = foreign
	pf, vf := model.VDPAName(vdpaVM, "vpf0", -1), model.VDPAName(vdpaVM, "vpf0", 0)
	makePF, makeVF := "make-device "+pf+"ua-vpf-vpf0-pf", "make-device "+vf+"ua-vpf-vpf0-vf0"
	out, did := b.tick()
	b.want(did, makePF, makeVF)
	if s := out.Virtual[0]; s.Settled[0] || s.Settled[1] {
		t.Errorf("settled before they are there: %+v", s)
	}
	out, did = b.tick()
	b.want(did)
	if s := out.Virtual[0]; !s.Settled[0] || !s.Settled[1] || !s.Functions[1].InForce || len(out.Problems) > 0 {
		t.Errorf("%+v, %+v", s, out.Problems)
	}
	if d := b.host.devices[vf]; d.MAC != vpftest.MAC(vdpaVM, "vpf0", 0) || d.Manager != "pci/0000:03:00.*" {
		t.Errorf("made %+v", d)
	}

	for what, spoil := range map[string]func(*model.VDPADevice){
		"with another MAC":    func(d *model.VDPADevice) { d.MAC[5]++ },
		"as the host's own":   func(d *model.VDPADevice) { d.Driver = "virtio_vdpa" },
		"without its link":    func(d *model.VDPADevice) { d.Linked = false },
		"after a host's boot": func(d *model.VDPADevice) { d.Name = "vdpa0" },
	} {
		d := b.host.devices[vf]
		delete(b.host.devices, vf)
		spoil(&d)
		b.host.devices[d.Name] = d
		if _, did := b.tick(); !slices.Equal(did, []string{makeVF}) {
			t.Errorf("%s: did %q", what, did)
		}
		b.host.devices["vdpa0"] = foreign
	}

	b.host.start(vdpaVM, b.state.Virtual)
	if out, did = b.tick(); len(did) > 0 || out.Virtual[0].Functions[1].Carrier != model.Yes || len(out.Virtual[0].Functions[1].Problems) > 0 {
		t.Errorf("running: did %q, %+v", did, out.Virtual[0])
	}
	old := b.state
	b.state = testState(t)
	out, did = b.tick()
	b.want(did) // QEMU has them open
	if len(out.Problems) != 3 {
		t.Errorf("two devices and a virtual PF that no definition knows: %+v", out.Problems)
	}
	b.host.stop(vdpaVM)
	d := b.host.devices[vf]
	d.InUse = model.Yes
	b.host.devices[vf] = d
	_, did = b.tick()
	b.want(did, "remove-device "+pf)
	d.InUse = model.No
	b.host.devices[vf] = d
	_, did = b.tick()
	b.want(did, "remove-device "+vf)
	if len(b.host.devices) != 1 {
		t.Errorf("left: %v", b.host.devices)
	}

	b.state = old
	b.host.fail = func(string) error { return errors.New("the NIC says no") }
	b.tick()
	out, did = b.tick()
	b.want(did, makePF, makeVF)
	problems := out.Virtual[0].Functions[1].Problems
	if len(problems) != 1 || !strings.Contains(problems[0].Text, "the NIC says no") {
		t.Errorf("problems %+v", problems)
	}
	_, did = b.tick()
	b.want(did) // the backoff grows
}

// From the definition to a VF on a vDPA device that a pod has, and what is not available with vDPA.
func TestManagerOnVDPA(t *testing.T) {
	r := newRig(t)
	r.policy.VLANs = model.VLANs{{First: 1, Last: 100}}
	ctx := t.Context()
	p := vpftest.PF(vdpaVM, "vpf0", 2)
	p.Backend, p.Network = model.BackendVDPA, "vduse"
	p, err := r.Define(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.VFs[0].Port; !got.NoSpoofCheck || got.Link != model.LinkUp {
		t.Errorf("it pretends to enforce: %+v", got)
	}
	if devices, err := r.host.VDPADevices(ctx); err != nil || len(devices) != 3 {
		t.Errorf("defined with devices %v, %v", devices, err)
	}
	if err := r.set(ctx, vdpaVM, "vpf0", 0, model.PortPolicy{NoSpoofCheck: true, Link: model.LinkUp, VLAN: 5}); err == nil ||
		!strings.Contains(err.Error(), "VLANs") {
		t.Errorf("sets a VLAN: %v", err)
	}
	if err := r.set(ctx, vdpaVM, "vpf0", 0, p.VFs[0].Port); err != nil {
		t.Error(err)
	}
	r.host.start(vdpaVM, []model.VirtualPF{p})
	r.until("it runs", func() bool { l, err := r.List(ctx); return err == nil && len(l) == 1 && l[0].Running })
	g := r.Guest(vdpaVM)
	for what, a := range map[string]channel.Attach{
		"VLANs":   {VLAN: 7},
		"rates":   {Limit: "1Mbit"},
		"one MAC": {MAC: "52:54:00:99:00:01"},
	} {
		if what == "one MAC" {
			r.policy.MACs = []string{"*"}
		}
		a.VF, a.Owner = at(p, 1), "pod/eth0"
		if _, err := g.Attach(ctx, a); code(err) != channel.CodeDenied || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if have, err := g.Attach(ctx, channel.Attach{VF: at(p, 1), Owner: "pod/eth0"}); err != nil || have.MAC != p.VFs[1].MAC.String() {
		t.Errorf("%+v, %v", have, err)
	}
	if err := g.Detach(ctx, channel.Detach{VF: at(p, 1), Owner: "pod/eth0"}); err != nil {
		t.Error(err)
	}
	r.host.stop(vdpaVM)
	r.until("it has stopped", func() bool { l, err := r.List(ctx); return err == nil && !l[0].Running })
	if err := r.Undefine(ctx, vdpaVM, "vpf0"); err != nil {
		t.Fatal(err)
	}
	r.until("no device is left", func() bool { devices, err := r.host.VDPADevices(ctx); return err == nil && len(devices) == 0 })
}
