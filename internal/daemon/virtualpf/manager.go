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

// Manager answers the requests of administrators and guests about virtual PFs.
type Manager struct {
	Runner *Runner
	// Policy returns what the guest of a VM may ask for.
	Policy func(vm model.VMID, name string) model.GuestPolicy
	// SLA returns a NIC's SLA according to the rules. The SLA of the PF itself covers the whole virtual PF.
	SLA func(vm *model.VM, nic *model.NIC) model.SLA
	// HostMACs maps each MAC of the host's interfaces to the interface.
	HostMACs func() (map[model.MAC]string, error)
	Now      func() time.Time
	Version  string         // reported to guests
	Limits   channel.Limits // of a guest's channel
	// Count receives the NIC counters that a guest reports, untrusted like all guest input; nil: nobody needs them.
	Count func(vm model.VMID, c channel.Counters)

	checks   checks
	usedMACs usedMACs
	contacts contacts
	guests   allowances
}

// allowance returns the remaining allowance of a VM's guest.
func (m *Manager) allowance(vm model.VMID) *allowance { return m.guests.of(vm, m.Runner.Store.State()) }

// applyWithin bounds how long an answer waits for the switch and QEMU.
const applyWithin = 10 * time.Second

var errObserve = errors.New("sluiced runs in observe mode, in which it changes nothing; set mode: enforce in sluice.yaml, then run " +
	"sluice reload")

// List returns the status of every virtual PF, by VM and name.
func (m *Manager) List(context.Context) ([]model.VirtualPFStatus, error) {
	v, _ := m.Runner.View()
	if v.Err != nil && len(v.Virtual) == 0 {
		return nil, v.Err // an empty list would be misleading
	}
	out := make([]model.VirtualPFStatus, len(v.Virtual))
	for i := range v.Virtual {
		out[i] = v.Virtual[i].VirtualPFStatus
		out[i].Problems = m.about(&v.Virtual[i])
	}
	return out, nil
}

// about returns the problems of a virtual PF as a whole.
func (m *Manager) about(s *vpf.Status) []model.Problem {
	out := slices.Concat(s.Problems, m.checks.of(s.VM, s.Name), m.exceedingGrants(s))
	if s.Channel {
		out = append(out, m.contacts.problems(s.VM, s.VMName, m.Now())...)
	}
	return out
}

// Problems returns all problems for doctor, as of the last observation.
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

// SetPorts changes what the host lets virtual VFs do: all of the given VFs or none. The change also applies at once to VFs that are in
// use: see follow. It returns when all changes are in force; an error after they were saved says that they were.
func (m *Manager) SetPorts(ctx context.Context, vm model.VMID, name string, vfs []int, named model.PortFields,
	change func(*model.PortPolicy) error,
) error {
	if !m.Runner.Enforce() {
		return errObserve
	}
	policy := m.policy(vm)
	edit := func(s *vpf.State) error {
		for _, vf := range vfs {
			if err := s.Set(vpf.Function{VM: vm, Name: name, VF: vf}, named, change, &policy); err != nil {
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
		if err := m.checkPortMACs(ctx, vpf.Function{VM: vm, Name: name, VF: vf}, trial.Find(vm, name).VFs[vf].Port.MACs); err != nil {
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
		return fmt.Errorf("it is saved, but not in force yet: %w", err)
	}
	return nil
}

// checkPortMACs rejects MACs that are in use elsewhere. It may ask libvirt, so it runs before the State is locked.
func (m *Manager) checkPortMACs(ctx context.Context, f vpf.Function, list []model.MAC) error {
	for _, mac := range list {
		if has := m.owner(mac, f); has != "" {
			return &usedMAC{mac, has}
		}
	}
	return m.unused(ctx, list...)
}

// changed wakes the Runner and the check for doctor. That check asks libvirt about every definition, so requests of guests must not
// trigger it.
func (m *Manager) changed() {
	m.Runner.Wake()
	m.checks.wake()
}

// settled waits until nothing is left to do for a function, as of a State that is at least as new as rev.
func (m *Manager) settled(ctx context.Context, f vpf.Function, rev uint64) error {
	v, err := m.await(ctx, func(v *View) bool {
		s := v.Find(f.VM, f.Name)
		return v.Rev >= rev && (s == nil || v.Err == nil && s.Settled[f.VF+1])
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, whyNot(v, v.Find(f.VM, f.Name), f.VF))
	}
	return nil
}

// await waits, at most applyWithin, for a View that satisfies done, and returns the last one.
func (m *Manager) await(ctx context.Context, done func(*View) bool) (*View, error) {
	ctx, cancel := context.WithTimeout(ctx, applyWithin)
	defer cancel()
	for {
		v, next := m.Runner.View()
		if done(v) {
			return v, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return v, ctx.Err()
		}
	}
}

// whyNot describes why a function is not settled.
func whyNot(v *View, s *vpf.Status, vf int) string {
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

// Share returns a function's guarantee and limit within those of its virtual PF.
func (m *Manager) Share(vm model.VMID, nic *model.NIC) model.SLA {
	p := m.Runner.Store.State().Find(vm, nic.VirtualPF)
	if p == nil || nic.Function < 1 || nic.Function > len(p.VFs) {
		return model.SLA{}
	}
	return p.VFs[nic.Function-1].Effective().SLA
}

// exceedingGrants returns the grants of a virtual PF that exceed the policy of its VM.
func (m *Manager) exceedingGrants(s *vpf.Status) (out []model.Problem) {
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
			Text: fmt.Sprintf("virtual PF %s: VF %d keeps what was granted to %s before virtual_pfs.guests was narrowed: %s", s.Name, i,
				s.VFs[i].Grant.Owner, why),
			Remedy: "in the guest, stop what uses the VF, or shut the VM down and start it; or allow it again in sluice.yaml",
		})
	}
	return out
}
