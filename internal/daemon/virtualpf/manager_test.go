package virtualpf

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/channel"
	"sluice/internal/control/vpf"
	"sluice/internal/control/vpf/vpftest"
	"sluice/internal/model"
)

// rig is a working Manager over a fake host.
type rig struct {
	*Manager
	t      testing.TB
	host   *fakeHost
	path   string
	policy model.GuestPolicy
	sla    model.SLA
	stop   func()
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, host: newFakeHost(), path: filepath.Join(t.TempDir(), FileName), policy: model.GuestPolicy{Attach: true}}
	t.Cleanup(func() { r.stop() })
	r.begin()
	return r
}

// begin starts a daemon, or the next one after a kill.
func (r *rig) begin() {
	r.t.Helper()
	store, err := OpenStore(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Manager = &Manager{
		Runner: (&Runner{
			Store: store, Look: func(ctx context.Context, _ bool) (vpf.World, error) { return r.host.look(ctx) }, Switch: r.host, Domains: r.host,
			VDPA: r.host, Log: slog.New(slog.DiscardHandler), Enforce: func() bool { return true },
		}).Init(),
		Policy:   func(model.VMID, string) model.GuestPolicy { return r.policy },
		SLA:      func(*model.VM, *model.NIC) model.SLA { return r.sla },
		HostMACs: func() (map[model.MAC]string, error) { return nil, nil },
		Now:      time.Now,
	}
	r.work()
}

// work runs the Runner until stop.
func (r *rig) work() {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Runner.Run(ctx) }()
	r.stop = func() { cancel(); <-done }
}

// until waits until ok returns true.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.After(time.Minute)
	for {
		_, next := r.Runner.View()
		if ok() {
			return
		}
		select {
		case <-next:
		case <-deadline:
			r.t.Fatalf("never: %s", what)
		}
	}
}

func (r *rig) carrier(vm model.VMID, alias string) model.Tri {
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	if v := r.host.vms[vm]; v != nil {
		if n := v.FindNIC(alias); n != nil {
			return n.Carrier
		}
	}
	return model.Unknown
}

func (r *rig) define(vm model.VMID, vfs int) model.VirtualPF {
	r.t.Helper()
	p := vpftest.PF(vm, "vpf0", vfs)
	p.MAC, p.Name = model.MAC{}, ""
	for i := range p.VFs {
		p.VFs[i].MAC = model.MAC{}
	}
	p, err := r.Define(r.t.Context(), p)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// run defines a virtual PF, starts its VM and says hello.
func (r *rig) run(vm model.VMID, vfs int) (model.VirtualPF, channel.Requests) {
	r.t.Helper()
	p := r.define(vm, vfs)
	r.host.start(vm, []model.VirtualPF{p})
	r.Runner.Wake()
	r.until("the PF is up", func() bool { return r.carrier(vm, p.PFAlias()) == model.Yes })
	g := r.Guest(vm)
	if _, err := g.Hello(r.t.Context(), channel.Hello{Boot: "boot-1"}); err != nil {
		r.t.Fatal(err)
	}
	return p, g
}

// set replaces one VF's policy.
func (r *rig) set(ctx context.Context, vm model.VMID, name string, vf int, port model.PortPolicy) error {
	return r.SetPorts(ctx, vm, name, []int{vf}, 0, func(p *model.PortPolicy) error { *p = port; return nil })
}

func at(p model.VirtualPF, vf int) channel.VF { return channel.VF{PF: p.MAC.String(), Index: vf} }

func code(err error) string {
	var e *channel.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// From the definition to a VF that is up for a pod, and back.
func TestFromDefineToLinkUp(t *testing.T) {
	r := newRig(t)
	p, g := r.run("a", 2)
	ctx := t.Context()
	if p.Name != "vpf0" || p.VFs[1].MAC.IsZero() {
		t.Errorf("%+v", p)
	}
	if c := r.carrier("a", p.VFAlias(0)); c != model.No {
		t.Errorf("a VF that nobody has has carrier %s", c)
	}
	have, err := g.Attach(ctx, channel.Attach{VF: at(p, 0), Owner: "pod/eth0"})
	if err != nil || have.MAC != p.VFs[0].MAC.String() {
		t.Fatalf("%+v, %v", have, err)
	}
	if c := r.carrier("a", p.VFAlias(0)); c != model.Yes {
		t.Errorf("attached with carrier %s", c)
	}
	if _, err := g.Attach(ctx, channel.Attach{VF: at(p, 0), Owner: "pod/eth0"}); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, err := g.Attach(ctx, channel.Attach{VF: at(p, 0), Owner: "other/eth0"}); code(err) != channel.CodeBusy {
		t.Errorf("another owner: %v", err)
	}
	if err := g.Detach(ctx, channel.Detach{VF: at(p, 0), Owner: "other/eth0"}); err != nil || r.carrier("a", p.VFAlias(0)) != model.Yes {
		t.Errorf("detached by another: %v", err)
	}
	list, _ := r.List(ctx)
	if f := list[0].Functions[1]; f.Owner != "pod/eth0" || !f.InForce || f.Carrier != model.Yes || !list[0].Running {
		t.Errorf("%+v", list)
	}
	if err := g.Detach(ctx, channel.Detach{VF: at(p, 0), Owner: "pod/eth0"}); err != nil || r.carrier("a", p.VFAlias(0)) != model.No {
		t.Errorf("detached: %v, carrier %s", err, r.carrier("a", p.VFAlias(0)))
	}
	if err := r.Undefine(ctx, "a", "vpf0"); err == nil || !strings.Contains(err.Error(), "shut the VM off") {
		t.Errorf("undefined while it runs: %v", err)
	}
	r.host.stop("a")
	r.until("its ports are gone", func() bool { w, _ := r.host.look(ctx); return len(w.Ports) == 0 && len(w.VMs) == 0 })
	r.until("it is seen to be off", func() bool { v, _ := r.Runner.View(); return v.World != nil && v.World.FindVM("a") == nil })
	if err := r.Undefine(ctx, "a", "vpf0"); err != nil || len(r.host.defined) != 0 {
		t.Errorf("undefined: %v", err)
	}
	if list, _ := r.List(ctx); r.Runner.Store.State().Find("a", "vpf0") != nil {
		t.Errorf("left: %+v", list)
	}
}

// After a reboot of the guest, or a restart of the VM, nothing is granted any more.
func TestRestartsEndGrants(t *testing.T) {
	r := newRig(t)
	p, g := r.run("a", 1)
	ctx := t.Context()
	attach := func() {
		t.Helper()
		if _, err := g.Attach(ctx, channel.Attach{VF: at(p, 0), Owner: "pod/eth0"}); err != nil {
			t.Fatal(err)
		}
	}
	attach()
	if _, err := g.Hello(ctx, channel.Hello{Boot: "boot-1"}); err != nil || r.carrier("a", p.VFAlias(0)) != model.Yes {
		t.Errorf("greeted again by the same kernel: %v", err)
	}
	if _, err := g.Hello(ctx, channel.Hello{Boot: "boot-2"}); err != nil || r.carrier("a", p.VFAlias(0)) != model.No {
		t.Errorf("booted: %v, carrier %s", err, r.carrier("a", p.VFAlias(0)))
	}
	attach()
	r.stop() // killed, and the VM is restarted meanwhile
	r.host.stop("a")
	r.host.start("a", []model.VirtualPF{p})
	r.begin()
	r.until("the grant is taken back", func() bool { return r.Runner.Store.State().Grants("a") == 0 })
	r.until("the PF is up", func() bool { return r.carrier("a", p.PFAlias()) == model.Yes })
	if c := r.carrier("a", p.VFAlias(0)); c != model.No {
		t.Errorf("the VF of the run before has carrier %s", c)
	}
	g = r.Guest("a")
	attach()
}

// If the policy cannot be set, the guest gets an error and no carrier.
func TestAttachFailsClosed(t *testing.T) {
	r := newRig(t)
	p, g := r.run("a", 1)
	r.until("everything is in force", func() bool {
		v, _ := r.Runner.View()
		s := v.Find("a", "vpf0")
		return s != nil && s.Running && s.Settled[0] && s.Settled[1]
	})
	r.host.mu.Lock()
	r.host.fail = func(what string) error {
		if what == "set-port" {
			return errors.New("no room")
		}
		return nil
	}
	r.host.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	yes := true
	if _, err := g.Attach(ctx, channel.Attach{VF: at(p, 0), Owner: "pod", Isolated: &yes}); code(err) != channel.CodeFailed {
		t.Errorf("%v", err)
	}
	if c := r.carrier("a", p.VFAlias(0)); c != model.No || r.Runner.Store.State().Grants("a") != 0 {
		t.Errorf("carrier %s, %d grants", c, r.Runner.Store.State().Grants("a"))
	}
}

// Settings by the host apply at once, even to a VF in use.
func TestHostChangesWhatIsGranted(t *testing.T) {
	r := newRig(t)
	p, g := r.run("a", 1)
	ctx := t.Context()
	if _, err := g.Attach(ctx, channel.Attach{VF: at(p, 0), Owner: "pod", Weight: 1}); err != nil {
		t.Fatal(err)
	}
	if err := r.set(ctx, "a", "vpf0", 0, model.PortPolicy{VLAN: 7}); err != nil {
		t.Fatal(err)
	}
	w, _ := r.host.look(ctx)
	nic := w.FindVM("a").NIC("vpf0", 0)
	for i := range w.Ports {
		if w.Ports[i].Tap == nic.Tap && w.Ports[i].Rules[0].VLAN != 7 {
			t.Errorf("%+v", w.Ports[i])
		}
	}
	if err := r.set(ctx, "a", "vpf0", 0, model.PortPolicy{Link: model.LinkDown}); err != nil || r.carrier("a", p.VFAlias(0)) != model.No {
		t.Errorf("%v, carrier %s", err, r.carrier("a", p.VFAlias(0)))
	}
	for want, err := range map[string]error{
		"no VF 1":                    r.set(ctx, "a", "vpf0", 1, model.PortPolicy{}),
		"there is no virtual PF x":   r.set(ctx, "a", "x", 0, model.PortPolicy{}),
		"not in 1-4094":              r.set(ctx, "a", "vpf0", 0, model.PortPolicy{VLAN: 4095}),
		"belongs to virtual PF vpf0": r.set(ctx, "a", "vpf0", 0, model.PortPolicy{MACs: []model.MAC{p.MAC}}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A change of many VFs is written once, and applies to all of them or to none.
func TestSetMany(t *testing.T) {
	r := newRig(t)
	r.run("a", 4)
	store := r.Runner.Store
	before := store.State()
	limit := func(p *model.PortPolicy) error { p.SLA.Limit = bits(1e6); return nil }
	if err := r.SetPorts(t.Context(), "a", "vpf0", []int{0, 1, 2, 3}, 0, limit); err != nil {
		t.Fatal(err)
	}
	set := store.State()
	for i, v := range set.Find("a", "vpf0").VFs {
		if v.Port.SLA.Limit != bits(1e6) {
			t.Errorf("VF %d: %+v", i, v.Port)
		}
	}
	if set.Rev != before.Rev+1 {
		t.Errorf("%d writes", set.Rev-before.Rev)
	}
	third := 0
	for name, change := range map[string]func(*model.PortPolicy) error{
		"VF 2: VLAN 5000": func(p *model.PortPolicy) error {
			if third++; third == 3 {
				p.VLAN = 5000
			}
			return nil
		},
		"it cannot be": func(*model.PortPolicy) error { return errors.New("it cannot be") },
		"which VF 0":   func(p *model.PortPolicy) error { p.MACs = []model.MAC{{2, 7}}; return nil },
	} {
		if err := r.SetPorts(t.Context(), "a", "vpf0", []int{0, 1, 2, 3}, 0, change); err == nil || !strings.Contains(err.Error(), name) ||
			store.State() != set {
			t.Errorf("%s: %v, changed: %v", name, err, store.State() != set)
		}
	}
}

func TestDefineRefuses(t *testing.T) {
	r := newRig(t)
	p := r.define("a", 1)
	ctx := t.Context()
	for want, edit := range map[string]func(*model.VirtualPF){
		"has a virtual PF vpf0": func(q *model.VirtualPF) { q.VM = "a" },
		"belongs to VF 0":       func(q *model.VirtualPF) { q.VFs[0].MAC = p.VFs[0].MAC },
		"listed twice":          func(q *model.VirtualPF) { q.VFs[0].MAC = q.MAC },
		"a unicast address":     func(q *model.VirtualPF) { q.MAC = model.MAC{1} },
		"more than the 7":       func(q *model.VirtualPF) { q.VFs = make([]model.VirtualVF, 8) },
		"has no VF":             func(q *model.VirtualPF) { q.VFs = nil },
		"must be the bridge":    func(q *model.VirtualPF) { q.Network = "" },
		"one tap for all its":   func(q *model.VirtualPF) { q.Model, q.Backend = model.VPFIGB, model.BackendVDPA },
	} {
		q := vpftest.PF("b", "vpf0", 1)
		edit(&q)
		if _, err := r.Define(ctx, q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if s := r.Runner.Store.State(); len(s.Virtual) != 1 || len(r.host.defined) != 1 {
		t.Errorf("%+v, %v", s, r.host.defined)
	}
}

// A new virtual PF is listed when Define returns, so that it can be configured at once.
func TestDefineIsListed(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"one", "two"} {
		q := vpftest.PF("a", name, 1)
		if _, err := r.Define(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		list, err := r.List(t.Context())
		if err != nil || !slices.ContainsFunc(list, func(s model.VirtualPFStatus) bool { return s.Name == name }) {
			t.Errorf("%s is not there: %v, %+v", name, err, list)
		}
	}
}

// Until libvirt has found it, a VM that is off is known only by name: a second definition with the same name does not affect the first.
func TestDefineTwice(t *testing.T) {
	r := newRig(t)
	r.define("a", 1)
	q := vpftest.PF("a", "vpf0", 1)
	q.VM, q.VMName, q.MAC, q.VFs[0].MAC = "", "a", model.MAC{}, model.MAC{}
	if _, err := r.Define(t.Context(), q); err == nil || !strings.Contains(err.Error(), "has a virtual PF vpf0 already") {
		t.Errorf("have %v", err)
	}
	if s := r.Runner.Store.State(); len(s.Virtual) != 1 || !r.host.defined["a/vpf0"] {
		t.Errorf("%+v, %v", s, r.host.defined)
	}
}
