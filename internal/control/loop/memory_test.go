package loop

import (
	"slices"
	"testing"
	"time"

	"sluice/internal/control/placement"
	"sluice/internal/model"
)

// vmsOf lists the VMs whose moves these Steps begin.
func vmsOf(steps []model.Step) (vms []string) {
	for _, s := range steps {
		vms = append(vms, string(s.Subject.VM))
	}
	slices.Sort(vms)
	return vms
}

// A Snapshot older than the current one changes nothing, whatever it shows.
func TestLateSnapshotIsPassedOver(t *testing.T) {
	h := newHand(t, Options{Parallel: 4})
	h.do(h.tick(), works)
	h.tick()
	target := h.target
	h.edit = func(s *model.Snapshot) { // before the moves: no VM had a VF
		s.Time, s.Read = noon, noon
		s.VMs = s.VMs[:1]
	}
	h.has = map[model.VMID]int{}
	if did := h.do(h.tick(), works); did != nil {
		t.Errorf("steps %v", did)
	}
	if v := h.View(); v.Totals.LateSamples != 1 || len(v.Snapshot.VMs) != 2 || v.Target != target {
		t.Errorf("%d late, %d VMs", v.Totals.LateSamples, len(v.Snapshot.VMs))
	}
}

// The result of a move counts until a Snapshot that was read after it, and no longer.
func TestMovesCountUntilTheyAreSeen(t *testing.T) {
	h := newHand(t, Options{Parallel: 4})
	before := h.now
	h.do(h.tick(), works)
	h.has = map[model.VMID]int{} // as it was before the moves, and later as it is again
	h.edit = func(s *model.Snapshot) { s.Read = before.Add(time.Second) }
	if did := h.do(h.tick(), works); did != nil {
		t.Errorf("on a Snapshot read before the moves: %v", did)
	}
	h.edit = func(*model.Snapshot) {}
	if begun := vmsOf(h.tick()); !slices.Equal(begun, []string{"a", "b"}) {
		t.Errorf("on one read after them, in which the VFs are gone again: %v", begun)
	}
}

// A VF that an unplug freed is given out at once, but not a VF that shows as free while the unplug still clears it.
func TestVFIsNotGivenWhileItIsBeingCleared(t *testing.T) {
	h := newHand(t, Options{Parallel: 4})
	h.vfs, h.has = 1, map[model.VMID]int{"a": 0}
	h.tick()
	if err := h.SetRules(model.Rules{Policy: "activity", Interval: time.Hour, VMs: []model.VMRule{{Match: "a", Forbid: true}}}); err != nil {
		t.Fatal(err)
	}
	steps := h.tick()
	for len(steps) == 1 && steps[0].Kind != model.StepClearVF {
		if steps[0].Kind == model.StepWaitGone {
			delete(h.has, "a")
		}
		steps = h.Finish(h.now, steps[0].ID, nil)
	}
	if len(steps) != 1 {
		t.Fatalf("steps %v, want a's VF to be cleared", steps)
	}
	for range 3 {
		if begun := h.tick(); len(begun) > 0 {
			t.Fatalf("begun while a's VF is being cleared: %v", begun)
		}
	}
	did := h.do(steps, works)
	if !slices.Contains(did, "attach b") {
		t.Errorf("steps %v: b does not get the VF that a gave up", did)
	}
	if len(h.unseen.freed) != 1 {
		t.Errorf("before a Snapshot shows it, %d VFs count as freed", len(h.unseen.freed))
	}
	if h.tick(); len(h.unseen.freed) != 0 {
		t.Errorf("when a Snapshot has shown it, %d VFs count as freed", len(h.unseen.freed))
	}
}

// While a VM is being repaired it keeps its VF.
func TestRepairedVMKeepsItsVF(t *testing.T) {
	h := newHand(t, Options{Parallel: 4})
	h.has = map[model.VMID]int{"a": 0, "b": 1}
	h.edit = func(s *model.Snapshot) { s.VMs[0].NICs[0].Route = s.VMs[0].NICs[0].Tap } // a's frames go where it does not listen
	if steps := h.tick(); len(steps) != 1 || steps[0].Subject.VM != "a" {
		t.Fatalf("steps %v, want a's repair", steps)
	}
	h.tick()
	if len(h.target.Assign) != 2 || len(h.waiting) != 0 {
		t.Errorf("target %+v, waiting %v", h.target.Assign, h.waiting)
	}
}

// While a plug is under way its VF counts as the VM's.
func TestMovesUnderWayCount(t *testing.T) {
	h := newHand(t, Options{Parallel: 4})
	if begun := vmsOf(h.tick()); !slices.Equal(begun, []string{"a", "b"}) {
		t.Fatalf("begun %v", begun)
	}
	want := slices.Clone(h.target.Assign)
	h.tick()
	if len(want) != 2 || !slices.EqualFunc(want, h.target.Assign, func(x, y model.Assignment) bool { return x.VM == y.VM && x.VF == y.VF }) {
		t.Errorf("two plugs under way: target %+v, before %+v", h.target.Assign, want)
	}
}

// Moves that an earlier run left are finished, but only in enforce mode.
func TestLeftMovesAreFinished(t *testing.T) {
	h := newHand(t, Options{Parallel: 4})
	h.has = map[model.VMID]int{"a": 0, "b": 1}
	h.tick()
	left := model.Move{Kind: model.MoveUnplug, VM: "a", VMName: "a", NIC: "ua-0", VF: model.VFID{PF: "pf0", Index: 0}}
	left.Steps = []model.Step{{Kind: model.StepDetach, Subject: model.Subject{VM: "a"}, Device: model.DeviceStep{NIC: "ua-0", VF: left.VF}}}
	for _, mode := range []model.Mode{model.ModeObserve, model.ModeEnforce} {
		o := DefaultOptions
		o.Mode = mode
		c, err := NewCore(model.Rules{Policy: "none"}, o, &memJournal{}, []model.Move{left})
		if err != nil {
			t.Fatal(err)
		}
		steps := c.Tick(h.now, h.snap)
		if took := slices.Contains(vmsOf(steps), "a"); took != (mode == model.ModeEnforce) || len(c.resume) > 0 == took {
			t.Errorf("%s: steps %v, %d moves left", mode, steps, len(c.resume))
		}
	}
}

// A Move that an earlier run left waits while its VM runs and cannot be read, and its VF is given to nobody meanwhile.
func TestLeftMoveWaitsForUnreadVM(t *testing.T) {
	h := newHand(t, Options{Parallel: 4})
	h.vfs = 1
	left := model.Move{Kind: model.MoveUnplug, VM: "a", VMName: "a", NIC: "ua-0", VF: model.VFID{PF: "pf0", Index: 0}}
	left.Steps = []model.Step{{Kind: model.StepDetach, Subject: model.Subject{VM: "a"}, Device: model.DeviceStep{NIC: "ua-0", VF: left.VF}}}
	h.resume = []model.Move{left}
	h.edit = func(s *model.Snapshot) { s.VMs, s.Unread = s.VMs[1:], []model.VMID{"a"} }
	h.costs.byVM["a"] = costs{}
	for range 2 * sweepEvery {
		if steps := h.tick(); len(steps) > 0 {
			t.Fatalf("begun: %v", steps)
		}
	}
	if _, kept := h.costs.byVM["a"]; len(h.resume) != 1 || !kept {
		t.Errorf("%d moves left, costs %v", len(h.resume), h.costs.byVM)
	}
	h.has["a"], h.edit = 0, func(*model.Snapshot) {}
	if steps := h.tick(); !slices.Contains(vmsOf(steps), "a") || len(h.resume) != 0 {
		t.Errorf("when it can be read: steps %v, %d moves left", steps, len(h.resume))
	}
}

// A VF that could not be set up is given to no VM for a while. It is not the VF's fault if a guest did not use it.
func TestBadVFRests(t *testing.T) {
	for _, c := range []struct {
		fails model.StepKind
		bad   bool
	}{{model.StepBindVFIO, true}, {model.StepSetVF, true}, {model.StepSetMAC, true}, {model.StepWaitGuest, false}} {
		h := newHand(t, Options{Parallel: 4, Backoff: 30 * time.Second, BackoffMax: time.Hour})
		h.vfs = 1
		h.do(h.tick(), func(s model.Step) error {
			if s.Kind == c.fails {
				return model.ErrPermanent
			}
			return nil
		})
		failed := h.now
		var begun []model.Step
		for len(begun) == 0 && h.now.Sub(failed) < time.Minute {
			begun = h.tick()
		}
		if waited := h.now.Sub(failed); len(begun) == 0 || (waited > 29*time.Second) != c.bad || waited > 32*time.Second {
			t.Errorf("%s failed: after %s begun: %v", c.fails, waited, begun)
		}
	}
}

// A VM backs off twice as long after each further failure, up to a bound.
func TestRestDoubles(t *testing.T) {
	h := newHand(t, Options{Parallel: 4, Backoff: 4 * time.Second, BackoffMax: 20 * time.Second})
	h.vfs = 1
	h.edit = func(s *model.Snapshot) { s.VMs = s.VMs[:1] }
	steps := h.tick()
	for _, want := range []time.Duration{4, 8, 16, 20, 20} {
		h.do(steps, func(s model.Step) error {
			if s.Kind == model.StepWaitGuest {
				return model.ErrPermanent
			}
			return nil
		})
		failed := h.now
		for steps = h.tick(); len(steps) == 0 && h.now.Sub(failed) < time.Minute; {
			steps = h.tick()
		}
		if waited := h.now.Sub(failed); waited < want*time.Second || waited > (want+1)*time.Second {
			t.Errorf("rested %s, want %d s", waited, want)
		}
	}
}

// State about VMs is dropped when they are gone, and only then.
func TestMemoriesGoWithTheirVMs(t *testing.T) {
	h := newHand(t, Options{Parallel: 4, Backoff: 24 * time.Hour, BackoffMax: 24 * time.Hour})
	h.do(h.tick(), func(s model.Step) error {
		if s.Kind == model.StepWaitGuest {
			return model.ErrPermanent
		}
		return nil
	})
	h.idle[model.NICID{VM: "a", NIC: "ua-0"}] = h.now
	remember := func() [3]int {
		return [3]int{len(h.fails), len(h.costs.byVM), len(h.unseen.moves) + len(h.unseen.freed)}
	}
	for range 3 * sweepEvery {
		h.tick()
	}
	if got := remember(); got != [3]int{2, 2, 0} {
		t.Errorf("of two VMs that are there it knows %v", got)
	}
	h.edit = func(s *model.Snapshot) { s.VMs = s.VMs[1:] }
	h.idle[model.NICID{VM: "a", NIC: "ua-0"}] = h.now
	for range sweepEvery {
		h.tick()
	}
	if got := remember(); got != [3]int{1, 1, 0} || len(h.idle) != 0 {
		t.Errorf("of the one that is left it knows %v, and of %d that they are idle", got, len(h.idle))
	}
}

// Costs are means of what a VM's moves took; a VM that has had no moves has the mean of all.
func TestCosts(t *testing.T) {
	h := newHand(t, Options{})
	at := func(kind model.MoveKind, vm model.VMID, took time.Duration) {
		h.account(model.MoveStatus{Move: model.Move{Kind: kind, VM: vm}, Started: noon, Ended: noon.Add(took)})
	}
	at(model.MovePlug, "a", 2*time.Second)
	at(model.MovePlug, "a", 4*time.Second)
	at(model.MoveUnplug, "a", time.Second)
	at(model.MovePlug, "b", 9*time.Second)
	h.costs.spent("a", func(k *costs) { k.Failed++ })
	want := placement.Cost{Plug: 3 * time.Second, Unplug: time.Second, Fail: 0.25}
	if got := h.costs.of("a"); got != want {
		t.Errorf("a's: %+v, want %+v", got, want)
	}
	want = placement.Cost{Plug: 5 * time.Second, Unplug: time.Second, Fail: 0.2}
	if got := h.costs.of("new"); got != want {
		t.Errorf("a new VM's: %+v, want %+v", got, want)
	}
	if n := h.View().Totals; n.Plugs != 3 || n.PlugTime != 15*time.Second || n.Unplugs != 1 || n.UnplugTime != time.Second {
		t.Errorf("totals %+v", n)
	}
}
