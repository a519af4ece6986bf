package virtualpf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/channel"
	"sluice/internal/control/vpf"
	"sluice/internal/model"
)

// Manager answers requests of people and guests about virtual PFs.
type Manager struct {
	Runner *Runner
	// Policy is what the guest of a VM may ask for.
	Policy func(vm model.VMID, name string) model.GuestPolicy
	// SLA is that of a NIC by the rules: of the PF itself it covers the whole virtual PF.
	SLA func(vm *model.VM, nic *model.NIC) model.SLA
	// HostMACs says which interface of the host has each MAC.
	HostMACs func() (map[model.MAC]string, error)
	Now      func() time.Time
	Version  string // for guests
	// Count takes what a guest says of its NICs' counters, as untrusted as all that it says; nil: nobody wants it.
	Count func(vm model.VMID, c channel.Counters)

	checks checks
	taken  taken
	heard  heard
	guests allowances
}

// allowance is what is left to the guest of a VM.
func (m *Manager) allowance(vm model.VMID) *allowance { return m.guests.of(vm, m.Runner.Store.State()) }

// applyWithin is how long an answer waits for the switch and QEMU.
const applyWithin = 10 * time.Second

var errObserve = errors.New("sluiced runs in observe mode, in which it changes nothing; write mode: enforce in sluice.yaml, then: sluice reload")

// List is every virtual PF as it stands, by VM and name.
func (m *Manager) List(context.Context) ([]model.VirtualPFStatus, error) {
	v, _ := m.Runner.View()
	if v.Err != nil && len(v.Virtual) == 0 {
		return nil, v.Err // an empty list would be a guess
	}
	out := make([]model.VirtualPFStatus, len(v.Virtual))
	for i := range v.Virtual {
		out[i] = v.Virtual[i].VirtualPFStatus
		out[i].Problems = m.about(&v.Virtual[i])
	}
	return out, nil
}

// about are the problems of a virtual PF as a whole.
func (m *Manager) about(s *vpf.Standing) []model.Problem {
	out := slices.Concat(s.Problems, m.checks.of(s.VM, s.Name), m.overstanding(s))
	if s.Channel {
		out = append(out, m.heard.problems(s.VM, s.VMName, m.Now())...)
	}
	return out
}

// Problems lists all that is wrong, for doctor, from what was looked up last.
func (m *Manager) Problems() (out []model.Problem) {
	v, _ := m.Runner.View()
	out = slices.Clone(v.Problems)
	for i := range v.Virtual {
		s := &v.Virtual[i]
		out = append(out, m.about(s)...)
		for k := range s.Functions {
			out = append(out, s.Functions[k].Problems...)
		}
	}
	return out
}

// SetPorts changes what the host lets virtual VFs do: all of them, or none. It counts at once, for whoever has them too: see follow.
// It returns when all stand; an error after they were kept says so.
func (m *Manager) SetPorts(ctx context.Context, vm model.VMID, name string, vfs []int, change func(*model.PortPolicy) error) error {
	if !m.Runner.Enforce() {
		return errObserve
	}
	policy := m.policy(vm)
	edit := func(s *vpf.State) error {
		for _, vf := range vfs {
			if err := s.Set(vpf.Function{VM: vm, Name: name, VF: vf}, change, &policy); err != nil {
				return err
			}
		}
		return nil
	}
	trial := m.Runner.Store.State().Clone()
	if err := edit(trial); err != nil {
		return err
	}
	for _, vf := range vfs {
		if err := m.mayHave(ctx, vpf.Function{VM: vm, Name: name, VF: vf}, trial.Find(vm, name).VFs[vf].Port.MACs); err != nil {
			return err
		}
	}
	state, err := m.Runner.Store.Update(edit)
	if err != nil {
		return err
	}
	m.changed()
	ctx, cancel := context.WithTimeout(ctx, applyWithin)
	defer cancel()
	var late []error
	for _, vf := range vfs {
		if err := m.settled(ctx, vpf.Function{VM: vm, Name: name, VF: vf}, state.Rev); err != nil {
			late = append(late, fmt.Errorf("VF %d: %w", vf, err))
		}
	}
	if err := errors.Join(late...); err != nil {
		return fmt.Errorf("it is kept, and does not stand yet: %w", err)
	}
	return nil
}

// mayHave refuses MACs that somebody else has. libvirt may be asked for that, so before the State is locked.
func (m *Manager) mayHave(ctx context.Context, f vpf.Function, list []model.MAC) error {
	for _, mac := range list {
		if has := m.owner(mac, f); has != "" {
			return &usedMAC{mac, has}
		}
	}
	return m.unused(ctx, list...)
}

// changed makes the Runner look, and doctor, which asks libvirt for every definition: not for what guests ask.
func (m *Manager) changed() {
	m.Runner.Wake()
	m.checks.wake()
}

// settled waits until nothing is left to do for a function, by a State at least as new.
func (m *Manager) settled(ctx context.Context, f vpf.Function, rev uint64) error {
	ctx, cancel := context.WithTimeout(ctx, applyWithin)
	defer cancel()
	for {
		v, next := m.Runner.View()
		s := v.Find(f.VM, f.Name)
		if v.Rev >= rev && (s == nil || v.Err == nil && s.Settled[f.VF+1]) {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", ctx.Err(), whyNot(v, s, f.VF))
		}
	}
}

// whyNot says what is in the way.
func whyNot(v *View, s *vpf.Standing, vf int) string {
	switch {
	case v.Err != nil:
		return v.Err.Error()
	case s == nil || vf+1 >= len(s.Functions):
		return "nothing is known of it yet"
	}
	list := []string{s.Functions[vf+1].Why}
	for _, p := range s.Functions[vf+1].Problems {
		list = append(list, p.Text)
	}
	return strings.Join(slices.DeleteFunc(list, func(t string) bool { return t == "" }), "; ")
}

// Share is what a function is promised and allowed inside what its virtual PF has.
func (m *Manager) Share(vm model.VMID, nic *model.NIC) model.SLA {
	p := m.Runner.Store.State().Find(vm, nic.VirtualPF)
	if p == nil || nic.Function < 1 || nic.Function > len(p.VFs) {
		return model.SLA{}
	}
	return p.VFs[nic.Function-1].Effective().SLA
}

// overstanding are the grants of a virtual PF that go beyond the policy of its VM.
func (m *Manager) overstanding(s *vpf.Standing) (out []model.Problem) {
	for i := range s.VFs {
		if s.VFs[i].Grant == nil {
			continue
		}
		policy := m.Policy(s.VM, s.VMName)
		why := vpf.Beyond(&s.VFs[i], &policy)
		if why == "" {
			continue
		}
		out = append(out, model.Problem{
			Subject: s.VMName,
			Text:    fmt.Sprintf("virtual PF %s: VF %d keeps what was granted to %s before virtual_pfs.guests was narrowed: %s", s.Name, i, s.VFs[i].Grant.Owner, why),
			Remedy:  "in the guest end what has the VF, or shut the VM down and start it; or allow it again in sluice.yaml",
		})
	}
	return out
}
