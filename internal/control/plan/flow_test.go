package plan

import (
	"testing"

	"sluice/internal/model"
)

// WithUndo tells an executor for each Step where a retry begins, whether a cancelled Move can be undone, whether the Step only
// waits, and whether the VF is to blame.
func TestWithUndo(t *testing.T) {
	s := world()
	moves := Diff(s, target(s, model.Assignment{VM: "b", NIC: "ua-0", VF: vf1}), nobody{}, DefaultTimeouts)
	unplug, plug := moves[0], WithUndo(moves[1], DefaultTimeouts)
	if moves[1].Steps[0].Flow != (model.Flow{}) {
		t.Error("the planned Move was changed")
	}
	turns := true
	for i, st := range plug.Steps {
		if st.Kind == model.StepRouteToVF {
			turns = false
		}
		if st.Flow.Turns != turns {
			t.Errorf("%s: turns %v: a plug is undone until the bridge sends to the VF", st, st.Flow.Turns)
		}
		if st.Flow.Waits != (st.Kind == model.StepWaitGuest) {
			t.Errorf("%s: only waits %v", st, st.Flow.Waits)
		}
		if want := kinds(Undo(moves[1], i, false, DefaultTimeouts)); kinds(plug.UndoAt(i, false)) != want {
			t.Errorf("%s: undone by %s, want %s", st, kinds(plug.UndoAt(i, false)), want)
		}
		if kinds(plug.UndoAt(i, true)) != kinds(cleanupSteps()) {
			t.Errorf("%s: for a VM that is gone: %s", st, kinds(plug.UndoAt(i, true)))
		}
	}
	for i, st := range WithUndo(unplug, DefaultTimeouts).Steps {
		if st.Flow.Turns {
			t.Errorf("%s: an unplug that is cancelled is finished", st)
		}
		back := 0
		if st.Kind == model.StepWaitGone {
			back = 1 // the request may be lost
			if unplug.Steps[i-1].Kind != model.StepDetach {
				t.Error("nothing is asked before it is waited for")
			}
		}
		if st.Flow.Retry != back {
			t.Errorf("%s: a retry begins %d Steps before it, want %d", st, st.Flow.Retry, back)
		}
	}
	repair := WithUndo(model.Move{Kind: model.MoveRepair, Steps: plug.Steps[:1]}, DefaultTimeouts)
	if repair.Undo != nil || repair.Gone != nil || repair.Steps[0].Flow.Undo != 0 {
		t.Error("a repair is undone")
	}
}

func cleanupSteps() (out []model.Step) {
	for _, k := range cleanup {
		out = append(out, model.Step{Kind: k})
	}
	return out
}
