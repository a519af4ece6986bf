package virtualpf

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"sluice/internal/channel"
	"sluice/internal/control/vpf"
	"sluice/internal/control/vpf/vpftest"
	"sluice/internal/model"
)

// A guest gets no MAC that is in use: by a NIC of another VM, of any model and even if that VM is off, or by the host.
func TestGuestTakesNobodysMAC(t *testing.T) {
	r := newRig(t)
	r.policy.MACs = []string{"*"}
	off, bridge, free := model.MAC{2, 0, 0, 0, 0, 1}, model.MAC{2, 0, 0, 0, 0, 2}, model.MAC{2, 0, 0, 0, 0, 3}
	r.host.macs = map[model.MAC]string{off: "ua-net0 of db-1"}
	r.HostMACs = func() (map[model.MAC]string, error) { return map[model.MAC]string{bridge: "interface br0"}, nil }
	p, g := r.run("a", 2)
	ctx := t.Context()
	for _, mac := range []model.MAC{off, bridge, p.MAC, p.VFs[1].MAC} {
		if _, err := g.Attach(ctx, channel.Attach{VF: at(p, 0), Owner: "pod", MAC: mac.String()}); code(err) != channel.CodeDenied {
			t.Errorf("%s: %v", mac, err)
		}
		if err := r.set(ctx, "a", "vpf0", 0, model.PortPolicy{MACs: []model.MAC{mac}}); err == nil {
			t.Errorf("set by the host: %s", mac)
		}
	}
	if _, err := g.Attach(ctx, channel.Attach{VF: at(p, 0), Owner: "pod", MAC: free.String()}); err != nil {
		t.Errorf("free: %v", err)
	}
	if _, err := g.Attach(ctx, channel.Attach{VF: at(p, 0), Owner: "pod", MAC: free.String()}); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, err := g.Attach(ctx, channel.Attach{VF: at(p, 1), Owner: "pod2", MAC: p.VFs[1].MAC.String()}); err != nil {
		t.Errorf("its own: %v", err)
	}
	q := vpftest.PF("b", "vpf0", 1)
	q.VFs[0].Port.MACs = []model.MAC{bridge}
	if _, err := r.Define(ctx, q); err == nil {
		t.Error("defined with the MAC of the host")
	}
}

// If the owners of MACs cannot be determined, nobody gets a new MAC.
func TestUnknownMACIsRefused(t *testing.T) {
	r := newRig(t)
	r.policy.MACs = []string{"*"}
	p, g := r.run("a", 1)
	r.host.mu.Lock()
	r.host.fail = func(what string) error {
		if what == "macs" {
			return errors.New("no libvirt")
		}
		return nil
	}
	r.host.mu.Unlock()
	if _, err := g.Attach(t.Context(), channel.Attach{VF: at(p, 0), Owner: "pod", MAC: "02:00:00:00:00:09"}); code(err) != channel.CodeFailed {
		t.Errorf("%v", err)
	}
}

// Attach succeeds only if the function has what the answer says: without a carrier it fails.
func TestAttachWithoutCarrierFails(t *testing.T) {
	for name, spoil := range map[string]func(r *rig, p model.VirtualPF){
		"a twin": func(r *rig, p model.VirtualPF) {
			r.host.vms["b"] = &vpf.VM{VM: model.VM{
				ID: "b", Name: "b", State: model.VMRunning,
				NICs: []model.NIC{{Alias: "net0", MAC: p.VFs[0].MAC, Network: "br0", Tap: "vnet99"}},
			}, Run: "b"}
		},
		"no such function": func(r *rig, _ model.VirtualPF) {
			vm := r.host.vms["a"]
			vm.NICs = vm.NICs[:1]
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p, g := r.run("a", 1)
			r.host.mu.Lock()
			spoil(r, p)
			r.host.mu.Unlock()
			r.Runner.Wake()
			if _, err := g.Attach(t.Context(), channel.Attach{VF: at(p, 0), Owner: "pod"}); code(err) != channel.CodeFailed {
				t.Errorf("attached: %v", err)
			}
			if n := r.Runner.Store.State().Grants("a"); n != 0 {
				t.Errorf("%d grants are left", n)
			}
		})
	}
}

// A guest may ask for a VF whose link is down.
func TestAttachWithLinkDown(t *testing.T) {
	r := newRig(t)
	p, g := r.run("a", 1)
	if _, err := g.Attach(t.Context(), channel.Attach{VF: at(p, 0), Owner: "pod", Link: "down"}); err != nil {
		t.Error(err)
	}
}

// stopped returns a rig's Runner that only acts when called.
func stopped(r *rig) *Runner {
	r.stop()
	r.stop = func() {}
	r.Runner.Log = slog.New(slog.DiscardHandler)
	return r.Runner
}

// What a guest was granted since its VM restarted is not revoked with the grants of the earlier run.
func TestForgetOnlyTheRunBefore(t *testing.T) {
	r := newRig(t)
	p, g := r.run("a", 1)
	if _, err := g.Attach(t.Context(), channel.Attach{VF: at(p, 0), Owner: "pod"}); err != nil {
		t.Fatal(err)
	}
	runner := stopped(r)
	r.host.stop("a")
	r.host.start("a", []model.VirtualPF{p})
	w, _ := r.host.look(t.Context())
	var forget *vpf.Action
	for _, a := range vpf.NewCore().Tick(r.Now(), runner.Store.State(), &w).Actions {
		if a.Kind == vpf.Forget {
			forget = &a
		}
	}
	if forget == nil {
		t.Fatal("nothing is taken back")
	}
	if _, err := runner.Store.Update(func(s *vpf.State) error { // the guest of the new run was granted something first
		s.Forget("a")
		s.Guests["a"] = vpf.Guest{Run: w.VMs[0].Run, Boot: "boot-2"}
		v, err := s.VF(vpf.Function{VM: "a", Name: "vpf0", VF: 0})
		v.Grant = &model.VFGrant{Owner: "new"}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := runner.do(t.Context(), forget); err != nil || runner.Store.State().Grants("a") != 1 {
		t.Errorf("%v, %d grants", err, runner.Store.State().Grants("a"))
	}
	if err := runner.do(t.Context(), &vpf.Action{Kind: vpf.Forget, VM: "a", Run: w.VMs[0].Run}); err != nil ||
		runner.Store.State().Grants("a") != 0 {
		t.Errorf("%v, %d grants", err, runner.Store.State().Grants("a"))
	}
}

// A VM that restarted at the moment at which its function got a carrier does not keep the carrier.
func TestLinkUpOfAnotherRun(t *testing.T) {
	r := newRig(t)
	p := r.define("a", 1)
	p.VFs[0].Port.Link = model.LinkUp
	runner := stopped(r)
	r.host.start("a", []model.VirtualPF{p})
	w, _ := r.host.look(t.Context())
	n := w.VMs[0].FindNIC(p.PFAlias())
	up := vpf.Action{Kind: vpf.LinkUp, VM: "a", Alias: n.Alias, Port: vpf.Wanted(&p, -1, n.Tap), Run: w.VMs[0].Run}
	if err := runner.do(t.Context(), &vpf.Action{Kind: vpf.SetPort, VM: "a", Alias: n.Alias, Port: up.Port}); err != nil {
		t.Fatal(err)
	}
	looks := 0
	runner.Look = func(ctx context.Context, _ bool) (vpf.World, error) {
		w, err := r.host.look(ctx)
		if looks++; looks == 1 {
			r.host.stop("a")
			r.host.start("a", []model.VirtualPF{p})
		}
		return w, err
	}
	if err := runner.do(t.Context(), &up); !errors.Is(err, model.ErrGone) {
		t.Errorf("have %v", err)
	}
	if c := r.carrier("a", n.Alias); c != model.No {
		t.Errorf("carrier %s", c)
	}
}

// A link that is up without a policy, and cannot be taken down while its VM migrates, at least gets the policy.
func TestPolicyWhereTheLinkStaysUp(t *testing.T) {
	h, p := newFakeHost(), vpftest.PF("a", "vpf0", 1)
	h.start("a", []model.VirtualPF{p})
	h.vms["a"].NICs[1].Carrier = model.Yes
	w, _ := h.look(t.Context())
	var kinds []vpf.Kind
	for _, a := range vpf.NewCore().Tick(testTime, testState(t, p), &w).Actions {
		if a.Alias == p.VFAlias(0) {
			kinds = append(kinds, a.Kind)
		}
	}
	if len(kinds) != 2 || kinds[0] != vpf.LinkDown || kinds[1] != vpf.SetPort {
		t.Errorf("have %v", kinds)
	}
}

// The policy of a VM is the one for its current name.
func TestPolicyByTheNameOfNow(t *testing.T) {
	r := newRig(t)
	var asked string
	r.Policy = func(_ model.VMID, name string) model.GuestPolicy { asked = name; return r.policy }
	p, g := r.run("a", 1)
	r.host.mu.Lock()
	r.host.vms["a"].Name = "renamed"
	r.host.mu.Unlock()
	r.Runner.Wake()
	r.until("it is seen", func() bool { v, _ := r.Runner.View(); return v.World.FindVM("a").Name == "renamed" })
	if _, err := g.Attach(t.Context(), channel.Attach{VF: at(p, 0), Owner: "pod"}); err != nil || asked != "renamed" {
		t.Errorf("%v, asked for %q", err, asked)
	}
	list, _ := r.List(t.Context())
	if list[0].VMName != "renamed" {
		t.Errorf("listed as %s", list[0].VMName)
	}
}

// A change by the host of a VF in use changes only what it names: host policy's limit still applies to the grant.
func TestHostChangesNoMoreThanItSays(t *testing.T) {
	r := newRig(t)
	r.policy.Limit, r.policy.Weight = model.Rate{Bits: 1e9}, 4
	p, g := r.run("a", 1)
	if _, err := g.Attach(t.Context(), channel.Attach{VF: at(p, 0), Owner: "pod", Receive: "2Gbit", Weight: 2}); err != nil {
		t.Fatal(err)
	}
	limit, receive := bits(1e9), bits(2e9)
	for _, c := range []struct{ set, want model.SLA }{
		{model.SLA{Weight: 1.5}, model.SLA{Limit: limit, Receive: receive, Weight: 1.5}},
		{model.SLA{Weight: 1.5, Guarantee: bits(1e6)}, model.SLA{Guarantee: bits(1e6), Limit: limit, Receive: receive, Weight: 1.5}},
		{model.SLA{Weight: 3, Limit: bits(3e9), Receive: bits(4e9)}, model.SLA{Limit: limit, Receive: receive, Weight: 2}},
		{model.SLA{Limit: bits(1e8), Receive: bits(3e8)}, model.SLA{Limit: bits(1e8), Receive: bits(3e8)}},
	} {
		if err := r.set(t.Context(), "a", "vpf0", 0, model.PortPolicy{SLA: c.set}); err != nil {
			t.Fatal(err)
		}
		have := r.Share("a", &model.NIC{VirtualPF: "vpf0", Function: 1})
		if have.Source = ""; have != c.want {
			t.Errorf("set %+v: have %+v, want %+v", c.set, have, c.want)
		}
	}
}

// A virtual PF that the file does not know can be taken over, and thereby removed.
func TestUnknownFunctionSaysHowToTakeItOver(t *testing.T) {
	h, p := newFakeHost(), vpftest.PF("a", "vpf0", 2)
	h.start("a", []model.VirtualPF{p})
	w, _ := h.look(t.Context())
	out := vpf.NewCore().Tick(testTime, testState(t), &w)
	for _, problem := range out.Problems {
		if !strings.Contains(problem.Remedy, "sluice vpf define vm-a --name vpf0 --vfs 2 --network br0") {
			t.Errorf("have %s", problem.Remedy)
		}
	}
	if len(out.Problems) != 1 {
		t.Errorf("%d problems", len(out.Problems))
	}
}

// A guest's refused requests do not fill the log.
func TestRefusalsFillNoLog(t *testing.T) {
	r := newRig(t)
	p, g := r.run("a", 1)
	runner := stopped(r)
	var lines countedLog
	runner.Log = slog.New(slog.NewTextHandler(&lines, nil))
	runner.Enforce = func() bool { return false }
	for range 1000 {
		if _, err := g.Attach(t.Context(), channel.Attach{VF: at(p, 0), Owner: "pod"}); code(err) != channel.CodeFailed {
			t.Fatal(err)
		}
	}
	if lines < 1 || lines > 10 {
		t.Errorf("%d lines of 1000 refusals", lines)
	}
}

type countedLog int

func (c *countedLog) Write(b []byte) (int, error) {
	*c++
	return len(b), nil
}

// A grant remains when host policy is narrowed, and doctor reports it until it is given back.
func TestNarrowedPolicyIsReported(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	vlans, err := model.ParseVLANs("10-20")
	if err != nil {
		t.Fatal(err)
	}
	wide := model.GuestPolicy{
		Attach: true, VLANs: vlans, MACs: []string{"02:*"}, NoSpoofCheck: true, Guarantee: model.Rate{Bits: 1e9},
		Limit: model.Rate{Bits: 5e9}, Weight: 3,
	}
	r.policy = wide
	p, g := r.run("a", 1)
	no := false
	ask := channel.Attach{VF: at(p, 0), Owner: "pod", MAC: "02:00:00:00:00:07", VLAN: 12, SpoofChk: &no, Limit: "4Gbit", Weight: 2}
	if _, err := g.Attach(ctx, ask); err != nil {
		t.Fatal(err)
	}
	said := func() (out []string) {
		for _, q := range r.Problems() {
			if strings.Contains(q.Text, "VF 0 keeps what was granted to pod") && q.Remedy != "" && q.Subject == p.VMName {
				out = append(out, q.Text)
			}
		}
		return out
	}
	if got := said(); len(got) > 0 {
		t.Errorf("within the policy: %q", got)
	}
	for want, narrow := range map[string]func(*model.GuestPolicy){
		"host policy does not let this VM's guest request VFs": func(g *model.GuestPolicy) { *g = model.GuestPolicy{} },
		"this VF may not be in all of VLANs 12 ":               func(g *model.GuestPolicy) { g.VLANs = nil },
		"this VF may not have MAC 02:00:00:00:00:07":           func(g *model.GuestPolicy) { g.MACs = nil },
		"the spoof check may not be switched off":              func(g *model.GuestPolicy) { g.NoSpoofCheck = false },
		"its limit is 4Gbit, but may now be at most 3Gbit":     func(g *model.GuestPolicy) { g.Limit = model.Rate{Bits: 3e9} },
		"weight 2 is not in 0-1":                               func(g *model.GuestPolicy) { g.Weight = 0 },
	} {
		r.policy = wide
		narrow(&r.policy)
		if got := said(); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%q, want %s", got, want)
		}
	}
	if err := g.Detach(ctx, channel.Detach{VF: at(p, 0), Owner: "pod"}); err != nil {
		t.Fatal(err)
	}
	if got := said(); len(got) > 0 {
		t.Errorf("given back: %q", got)
	}
}
