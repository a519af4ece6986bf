package plan

import (
	"slices"

	"sluice/internal/model"
)

// WithUndo adds to a Move that is about to begin what the executor needs to retry, undo and cancel it. The result shares no Steps
// with m.
func WithUndo(m model.Move, to Timeouts) model.Move {
	m.Steps = slices.Clone(m.Steps)
	turns := m.Kind == model.MovePlug
	for i := range m.Steps {
		k := m.Steps[i].Kind
		// Once the guest listens on the VF, finishing takes less time than turning back.
		turns = turns && k != model.StepRouteToVF
		m.Steps[i].Flow = model.Flow{
			Retry:  retryFrom(k),
			Undo:   undoList(&m, Undo(m, i, false, to)),
			Waits:  k == model.StepWaitGuest,
			Turns:  turns,
			Blames: k == model.StepBindVFIO || k == model.StepSetVF || k == model.StepSetMAC,
		}
	}
	m.Gone = Undo(m, 0, true, to)
	return m
}

// undoList stores steps among the Move's undo lists and returns its number, counted from 1; 0 for an empty list.
func undoList(m *model.Move, steps []model.Step) int {
	if len(steps) == 0 {
		return 0
	}
	same := func(a, b model.Step) bool { return a.Kind == b.Kind }
	for i := range m.Undo {
		if slices.EqualFunc(m.Undo[i], steps, same) {
			return i + 1
		}
	}
	for i := range steps {
		steps[i].Flow.Skip = skipFrom(steps, i)
	}
	m.Undo = append(m.Undo, steps)
	return len(m.Undo)
}

// skipFrom returns how many of the following Steps of an undo to skip when the i-th failed. A VF stays in a guest that does not
// release it, and in one that would be cut off if it did; it then keeps its settings, and the guest gets its frames on the path
// where it listens.
func skipFrom(steps []model.Step, i int) int {
	switch steps[i].Kind {
	case model.StepAddSelf, model.StepOpenDualPath, model.StepDetach, model.StepWaitGone:
	default:
		return 0
	}
	n := 0
	for i+1+n < len(steps) && steps[i+1+n].Kind != model.StepFollowGuest {
		n++
	}
	return n
}

// retryFrom returns how many Steps before a Step of that kind a retry begins. The request that the Step waits for may be lost (an
// ACPI unplug before the guest listens), so it must be sent again.
func retryFrom(k model.StepKind) int {
	if k == model.StepWaitGone {
		return 1
	}
	return 0
}
