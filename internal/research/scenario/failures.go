package scenario

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"sluice/internal/model"
	"sluice/internal/research/sim"
)

var errInjected = errors.New("failed, as the scenario demands")

// failures varies the duration of moves and makes some fail.
type failures struct {
	s      *Scenario
	rand   *rand.Rand
	groups map[model.VMID]*Group
	tried  map[string]bool // Steps that have failed once in the present move
	base   sim.Timing
}

func newFailures(s *Scenario, seed uint64) *failures {
	m := &failures{s: s, groups: map[model.VMID]*Group{}, tried: map[string]bool{}}
	m.rand = rand.New(rand.NewPCG(seed, 0x6d6973)) //nolint:gosec // faults need no secrets
	m.base = timing(s.Timing)
	return m
}

// timing splits the times of a plug and an unplug over their Steps in the paper's proportions.
func timing(t Timing) sim.Timing {
	p := sim.PaperTiming
	kernel := min(p.Kernel, t.Unplug/100, t.Plug/100)
	// Ten kernel Steps go with a plug and seven with an unplug.
	plug, unplug := t.Plug-10*kernel, t.Unplug-7*kernel
	attach := plug * p.Attach / (p.Attach + p.Guest)
	detach := unplug * p.Detach / (p.Detach + p.Gone)
	return sim.Timing{Kernel: kernel, Attach: attach, Guest: plug - attach, Detach: detach, Gone: unplug - detach}
}

// step returns how much longer (or shorter) than usual a Step takes.
func (m *failures) step(s model.Step) sim.Verdict {
	usual := m.base.Takes(s.Kind)
	f := 1.0
	switch s.Kind {
	case model.StepAttach, model.StepWaitGuest:
		if g := m.groups[s.Subject.VM]; g != nil && g.Plug > 0 {
			f = float64(g.Plug) / float64(m.s.Timing.Plug)
		}
	case model.StepDetach, model.StepWaitGone:
	default:
		return sim.Verdict{}
	}
	if m.s.Timing.Spread > 0 {
		f *= 1 + m.s.Timing.Spread*(2*m.rand.Float64()-1)
	}
	return sim.Verdict{Extra: time.Duration(float64(usual) * (f - 1))}
}

// fail is for World.Fail.
func (m *failures) fail(s model.Step) error {
	if s.Kind == model.StepWaitGuest {
		p := m.s.Failures.Plug
		if g := m.groups[s.Subject.VM]; g != nil {
			p = max(p, g.PlugFails)
		}
		if p > 0 && m.rand.Float64() < p {
			return fmt.Errorf("%s did not open the VF, as the scenario demands: %w", s.Subject.VMName,
				errors.Join(model.ErrGuest, model.ErrPermanent))
		}
	}
	if m.s.Failures.Step == 0 {
		return nil
	}
	key := string(s.Subject.VM) + string(s.Kind)
	if !m.tried[key] && m.rand.Float64() < m.s.Failures.Step {
		m.tried[key] = true
		return errInjected
	}
	delete(m.tried, key)
	return nil
}
