package loop

import (
	"slices"
	"testing"
	"time"

	"sluice/internal/control/plan"
	"sluice/internal/model"
)

// ended runs Steps until none is left and returns the causes of the Moves that end.
func (h *hand) ended(steps []model.Step) (out []string) {
	h.do(steps, works)
	for _, m := range h.Ended() {
		if m.Move.Kind != model.MoveRepair {
			out = append(out, string(m.Move.Kind)+" "+m.Move.VMName+": "+m.Move.Cause.String())
		}
	}
	return out
}

// Each move of a VM says what it is due to, from the first VF to a reload.
func TestCausesOfMoves(t *testing.T) {
	h := newHand(t, Options{Parallel: 2})
	h.vfs = 1
	down := false
	h.edit = func(s *model.Snapshot) { s.PFs[0].LinkUp = !down }
	rules := model.Rules{Policy: "activity", Interval: time.Hour, VMs: []model.VMRule{{Match: "b", Forbid: true}}}
	must(t, h.SetRules(rules))
	h.causes.reloaded = false
	by := func(r model.VMRule) model.Rules {
		now := rules
		now.VMs = append([]model.VMRule{r}, rules.VMs...)
		return now
	}
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for range 10 { // seconds
			got = append(got, h.ended(h.tick())...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	expect("plug a: a VF is free")
	down = true
	expect("unplug a: link of pf0 down")
	down = false
	expect("plug a: link of pf0 up again")
	must(t, h.SetRules(by(model.VMRule{Match: "a", Forbid: true, ByHand: true, By: "ann"})))
	expect("unplug a: released by ann")
	must(t, h.SetRules(by(model.VMRule{Match: "a", Pin: true, ByHand: true, By: "bob"})))
	expect("plug a: pinned by bob")
	drained := rules
	drained.Drain, drained.DrainBy = true, "cid"
	must(t, h.SetRules(drained))
	expect("unplug a: drained by cid")
	must(t, h.SetRules(rules))
	expect("plug a: a VF is free")
	rules.Policy = "none"
	must(t, h.SetRules(rules))
	expect("unplug a: sluice.yaml changed")
	if h.View().Reloaded.IsZero() {
		t.Error("the View does not say that the config was reloaded")
	}
}

// A move keeps the cause for which it was planned while it waits for its turn, unless something stronger comes between.
func TestWaitingMoveKeepsItsCause(t *testing.T) {
	h := newHand(t, Options{Parallel: 2})
	h.has["a"] = 0
	h.ended(h.tick())
	m := plan.Diff(h.snap, &model.Target{Reasons: []model.Reason{{VM: "a"}, {VM: "b"}}}, busy{h.Core}, h.opts.Timeouts)
	before := slices.Clone(m)
	before[0].Cause = model.Cause{Kind: model.CauseReload}
	h.tellCauses(h.now, m, before)
	if m[0].Cause.Kind != model.CauseReload {
		t.Errorf("it waited for %q, and is now due to %q", before[0].Cause, m[0].Cause)
	}
	m[0].Cause = model.Cause{Kind: model.CauseLinkDown, PF: "pf0"}
	h.tellCauses(h.now, m, before)
	if m[0].Cause.Kind != model.CauseLinkDown {
		t.Errorf("a link went down, and it is due to %q", m[0].Cause)
	}
}

// A move that an earlier run of the daemon left behind says so.
func TestResumedMoveSaysRestart(t *testing.T) {
	h := newHand(t, Options{Parallel: 2})
	h.has["a"] = 0
	h.ended(h.tick())
	left := plan.Diff(h.snap, &model.Target{Reasons: []model.Reason{{VM: "a"}, {VM: "b"}}}, busy{h.Core}, h.opts.Timeouts)
	left[0].Cause = model.Cause{Kind: model.CauseLinkDown, PF: "pf0"}
	again := newHand(t, Options{Parallel: 2})
	again.has["a"], again.resume = 0, left
	got := again.ended(again.tick())
	if want := "unplug a: left unfinished by a restart (link of pf0 down)"; !slices.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
