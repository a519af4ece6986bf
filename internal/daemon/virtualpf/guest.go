package virtualpf

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"sluice/internal/channel"
	"sluice/internal/control/vpf"
	"sluice/internal/model"
)

// guest serves the guest of one VM and implements channel.Requests. The socket identifies the VM, and requests can name only that VM's
// virtual PFs.
type guest struct {
	m  *Manager
	vm model.VMID
}

var _ channel.Requests = guest{}

// Guest returns the request handler for the guest of a VM.
func (m *Manager) Guest(vm model.VMID) channel.Requests {
	return guest{m, vm}
}

// maxBoot bounds a boot_id, which is a UUID.
const maxBoot = 64

// Hello implements channel.Requests. After a reboot of the guest nothing is attached any more, so all its grants are revoked.
func (g guest) Hello(ctx context.Context, h channel.Hello) (channel.Welcome, error) {
	out := channel.Welcome{Program: g.m.Version, Counters: g.m.policy(g.vm).Counters}
	if g.m.Count == nil {
		out.Counters = 0
	}
	if len(h.Boot) > maxBoot {
		return out, vpf.Invalid("a boot_id has at most %d bytes", maxBoot)
	}
	g.m.contacts.hello(g.vm, g.m.Now())
	run, err := g.running()
	if err != nil {
		return out, err
	}
	now := vpf.Guest{Run: run.Run, Boot: h.Boot}
	if !g.m.Runner.Enforce() || g.m.Runner.Store.State().Guests[g.vm] == now {
		return out, nil
	}
	next, err := g.update(ctx, func(s *vpf.State) error {
		s.Forget(g.vm)
		s.Guests[g.vm] = now
		return nil
	})
	if err != nil {
		return out, err
	}
	return out, g.allSettled(ctx, next)
}

// update saves a change that the guest causes, after waiting until the guest's allowance permits one.
func (g guest) update(ctx context.Context, edit func(*vpf.State) error) (*vpf.State, error) {
	if err := g.m.allowance(g.vm).changes.Wait(ctx); err != nil {
		return nil, &channel.Error{
			Code: channel.CodeBusy, Text: "this VM's guest attaches and detaches too often", Remedy: "try again in a minute",
		}
	}
	next, err := g.m.Runner.Store.UpdateSoon(edit)
	g.m.Runner.Wake()
	var said *channel.Error
	if err != nil && !errors.As(err, &said) {
		err = g.failed(err)
	}
	return next, err
}

// running returns the VM as last observed.
func (g guest) running() (*vpf.VM, error) {
	v, _ := g.m.Runner.View()
	if v.World != nil {
		if vm := v.World.FindVM(g.vm); vm != nil {
			return vm, nil
		}
	}
	return nil, g.failed(cmp.Or(v.Err, errors.New("the VM does not seem to run")))
}

func (g guest) allSettled(ctx context.Context, s *vpf.State) error {
	for _, p := range s.Of(g.vm) {
		for i := range p.VFs {
			if err := g.m.settled(ctx, vpf.Function{VM: g.vm, Name: p.Name, VF: i}, s.Rev); err != nil {
				return g.failed(err)
			}
		}
	}
	return nil
}

// policy returns what the guest of a VM may ask for, by the VM's current name.
func (m *Manager) policy(vm model.VMID) model.GuestPolicy {
	name := ""
	if v, _ := m.Runner.View(); v.World != nil && v.World.FindVM(vm) != nil {
		name = v.World.FindVM(vm).Name
	} else if of := m.Runner.Store.State().Of(vm); len(of) > 0 {
		name = of[0].VMName
	}
	return m.Policy(vm, name)
}

// find looks up the function that the guest names.
func (g guest) find(s *vpf.State, vf channel.VF) (vpf.Function, error) {
	mac, err := model.ParseMAC(vf.PF)
	if err != nil {
		return vpf.Function{}, vpf.Invalid("the PF's %.80s", err)
	}
	for _, p := range s.Of(g.vm) {
		if p.MAC != mac {
			continue
		}
		if vf.Index < 0 || vf.Index >= len(p.VFs) {
			return vpf.Function{}, &channel.Error{
				Code: channel.CodeUnknown,
				Text: fmt.Sprintf("virtual PF %s has VFs 0 to %d, but no VF %d", mac, len(p.VFs)-1, vf.Index),
			}
		}
		return vpf.Function{VM: g.vm, Name: p.Name, VF: vf.Index}, nil
	}
	return vpf.Function{}, &channel.Error{
		Code: channel.CodeUnknown, Text: fmt.Sprintf("this VM has no virtual PF with MAC %s", mac),
		Remedy: "see `sluice-guest doctor`, and on the host `sluice vpf list`",
	}
}

// Detach implements channel.Requests. It returns when the link is down.
func (g guest) Detach(ctx context.Context, d channel.Detach) error {
	if !g.m.Runner.Enforce() {
		return g.failed(errObserve)
	}
	f, err := g.find(g.m.Runner.Store.State(), d.VF)
	if e := (*channel.Error)(nil); errors.As(err, &e) && e.Code == channel.CodeUnknown {
		return nil // there is nothing to give back
	}
	if err != nil {
		return err
	}
	s := g.m.Runner.Store.State()
	if v, err := s.VF(f); err != nil || v.Grant != nil && v.Grant.Owner != d.Owner {
		return nil //nolint:nilerr // it is attached elsewhere, or is gone: there is nothing to detach
	} else if v.Grant != nil {
		s, err = g.update(ctx, func(s *vpf.State) error {
			if v, err := s.VF(f); err == nil && v.Grant != nil && v.Grant.Owner == d.Owner {
				v.Grant = nil
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := g.m.settled(ctx, f, s.Rev); err != nil {
		return g.failed(err)
	}
	return nil
}

// List implements channel.Requests.
func (g guest) List(context.Context) ([]channel.Held, error) {
	var out []channel.Held
	for _, p := range g.m.Runner.Store.State().Of(g.vm) {
		for i := range p.VFs {
			h := channel.Held{VF: channel.VF{PF: p.MAC.String(), Index: i}, MAC: macOf(&p.VFs[i]).String()}
			if v := &p.VFs[i]; v.Grant != nil {
				h.Owner = v.Grant.Owner
			}
			out = append(out, h)
		}
	}
	return out, nil
}

// Counters implements channel.Requests.
func (g guest) Counters(_ context.Context, c channel.Counters) {
	if g.m.Count != nil && g.m.policy(g.vm).Counters > 0 {
		g.m.Count(g.vm, c)
	}
}

// failed returns the answer to a request that fails because of the host. The guest only learns that it may try again; the host's log
// has the reason.
func (g guest) failed(err error) error {
	g.m.allowance(g.vm).refusals.Do(func() {
		g.m.Runner.Log.Warn("a guest's request could not be carried out", "vm", string(g.vm), "error", err)
	})
	return &channel.Error{
		Code: channel.CodeFailed, Text: "the host could not carry out the request",
		Remedy: "try again; `sluice vpf list` and the log of sluiced on the host say why",
	}
}
