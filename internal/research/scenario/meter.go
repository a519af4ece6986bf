package scenario

import (
	"time"

	"sluice/internal/model"
	"sluice/internal/research/oracle"
	"sluice/internal/research/sim"
)

// Decision is one completed plug or unplug.
type Decision struct {
	At    time.Duration // when the guest began or ceased to use the VF
	Asked time.Duration // when the move began
	Plug  bool
	VM    string
	VF    model.VFID
	Why   string // the sentence that `sluice explain` would print
}

// meter records who used a VF when.
type meter struct {
	h         *host
	log       oracle.Log
	decisions []Decision
	state     []watched
	asked     map[model.VMID]time.Time
	why       map[model.VMID]string
}

type watched struct {
	open bool
	vf   model.VFID
}

func newMeter(h *host) *meter {
	m := &meter{h: h, state: make([]watched, len(h.members)), asked: map[model.VMID]time.Time{}, why: map[model.VMID]string{}}
	also := h.engine.OnEvent
	h.engine.OnEvent = func(now time.Time) {
		m.note(now)
		if also != nil {
			also(now)
		}
	}
	next := h.engine.OnStep
	h.engine.OnStep = func(s model.Step) sim.Verdict {
		if s.Kind == model.StepCheckVirtio { // every move begins with it
			m.asked[s.Subject.VM] = h.engine.World.Now
			m.why[s.Subject.VM] = m.reason(s.Subject.VM)
		}
		return next(s)
	}
	return m
}

// reason returns why the core wants the VM moved now.
func (m *meter) reason(id model.VMID) string {
	t := m.h.engine.Core.View().Target
	for i := range t.Reasons {
		if t.Reasons[i].VM == id {
			return t.Reasons[i].String()
		}
	}
	return ""
}

// note records what has changed. A VM that left has returned its VF.
func (m *meter) note(now time.Time) {
	for i := range m.state {
		st := &m.state[i]
		vm := m.h.members[i].vm
		open := false
		if vm != nil {
			_, open = vm.Holds()
		}
		if open != st.open {
			m.change(now, i, open)
		}
	}
}

func (m *meter) change(now time.Time, i int, open bool) {
	st, mb := &m.state[i], &m.h.members[i]
	d := Decision{At: now.Sub(m.h.s.epoch), Asked: now.Sub(m.h.s.epoch), Plug: open, VM: mb.name, VF: st.vf, Why: "the VM left"}
	if mb.vm != nil {
		if open {
			d.VF, _ = mb.vm.Holds()
		}
		d.Asked, d.Why = m.asked[mb.vm.ID].Sub(m.h.s.epoch), m.why[mb.vm.ID]
	}
	st.open, st.vf = open, d.VF
	m.decisions = append(m.decisions, d)
	m.log = append(m.log, oracle.Event{At: d.At, VM: i, On: open})
}
