package loop

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
)

// failing makes Steps of that kind fail.
func failing(k model.StepKind, err error) func(model.Step) error {
	return func(s model.Step) error {
		if s.Kind == k {
			return err
		}
		return nil
	}
}

// A guest that does not release the VF of a failed plug may still use it: the VF keeps its settings, including the MAC.
func TestUndoLeavesAVFAloneThatIsStillInTheGuest(t *testing.T) {
	for _, k := range []model.StepKind{model.StepDetach, model.StepWaitGone} {
		h := newHand(t, Options{Parallel: 1})
		h.vfs = 1
		did := strings.Join(h.do(h.tick(), func(s model.Step) error {
			if s.Kind == model.StepWaitGuest || s.Kind == k {
				return model.ErrGuest
			}
			return nil
		}), " ")
		if !strings.Contains(did, string(k)+" a") || strings.Contains(did, "clear-vf") || !strings.HasSuffix(did, "announce a") {
			t.Errorf("%s failed: did %q, want the VF left as it is and the rest done", k, did)
		}
	}
}

// A VF whose move is still being undone is not given to the next VM, even if it looks free.
func TestVFOfAMoveThatIsUndoneIsNotGivenOut(t *testing.T) {
	h := newHand(t, Options{Parallel: 4, Backoff: time.Hour, BackoffMax: time.Hour})
	h.vfs = 1
	steps := h.tick()
	for len(steps) > 0 && steps[0].Kind != model.StepClearVF {
		var err error
		if steps[0].Kind == model.StepAttach {
			err = model.ErrPermanent
		}
		steps = h.Finish(h.now, steps[0].ID, err)
	}
	if len(steps) != 1 {
		t.Fatal("a's VF is not cleared")
	}
	for range 3 {
		if begun := h.tick(); len(begun) > 0 {
			t.Fatalf("a's VF is being cleared still, and b's plug begins: %v", begun)
		}
	}
	did := h.do(h.Finish(h.now, steps[0].ID, nil), works)
	if over, next := slices.Index(did, "announce a"), slices.Index(did, "attach b"); over < 0 || next < over {
		t.Errorf("did %v, want b's plug when a's is undone", did)
	}
}

// A Snapshot whose slow part was read before a move ended shows the state before it: no decision may be based on it.
func TestStaleSnapshotDoesNotUndoAMove(t *testing.T) {
	h := newHand(t, Options{Parallel: 4})
	h.has = map[model.VMID]int{"b": 1}
	before := h.now
	if did := h.do(h.tick(), works); !slices.Contains(did, "attach a") {
		t.Fatalf("did %v", did)
	}
	h.has = map[model.VMID]int{"b": 1}
	h.edit = func(s *model.Snapshot) { s.Read = before.Add(time.Second) }
	if did := h.do(h.tick(), works); did != nil {
		t.Errorf("on a picture from before a's plug: did %v", did)
	}
	for _, r := range h.View().Target.Reasons {
		if !r.Hold {
			t.Errorf("%s %s", r.VM, r)
		}
	}
	h.edit = func(*model.Snapshot) {} // now it shows that a has none, which is true
	if did := h.do(h.tick(), works); !slices.Contains(did, "attach a") {
		t.Errorf("a lost its VF: did %v", did)
	}
}

// A VF that cannot be set up is given to nobody for a while.
func TestVFThatCannotBeSetUpIsNotGivenOut(t *testing.T) {
	for _, k := range []model.StepKind{model.StepBindVFIO, model.StepSetVF, model.StepSetMAC} {
		h := newHand(t, Options{Parallel: 4, Backoff: time.Minute, BackoffMax: time.Hour})
		h.vfs = 1
		h.do(h.tick(), failing(k, model.ErrPermanent))
		for range 59 {
			if did := h.do(h.tick(), works); did != nil {
				t.Fatalf("%s failed, and within a minute it did %v", k, did)
			}
		}
		did := h.do(h.tick(), works)
		did = append(did, h.do(h.tick(), works)...)
		if !slices.Contains(did, "attach a") && !slices.Contains(did, "attach b") {
			t.Errorf("a minute after %s failed it did %v, want another try", k, did)
		}
		if len(h.badVFs) > 0 {
			t.Errorf("remembered for good: %v", h.badVFs)
		}
	}
	// If it is the guest's fault, the VF can be used.
	h := newHand(t, Options{Parallel: 4, Backoff: time.Minute, BackoffMax: time.Hour})
	h.vfs = 1
	h.do(h.tick(), failing(model.StepAttach, model.ErrPermanent))
	if did := h.do(h.tick(), works); !slices.Contains(did, "attach b") {
		t.Errorf("a's attach failed: did %v, want b to get the VF", did)
	}
}

// A Snapshot that arrives after a newer one is counted and ignored.
func TestLateSnapshotDecidesNothing(t *testing.T) {
	h := newHand(t, Options{Parallel: 4})
	h.do(h.tick(), works)
	h.tick()
	newest := h.View().Snapshot
	h.edit = func(s *model.Snapshot) {
		s.Time = s.Time.Add(-time.Hour)
		s.VMs[0].NICs[0].Route = s.VMs[0].NICs[0].Tap // would cause a repair
		s.VMs[1].State = model.VMStopped
	}
	if steps := h.tick(); len(steps) > 0 {
		t.Errorf("began %v", steps)
	}
	v := h.View()
	if v.Snapshot != newest || v.Totals.LateSamples != 1 || len(v.Findings) > 0 {
		t.Errorf("shows the late one, or does not count it: %d late, findings %v", v.Totals.LateSamples, v.Findings)
	}
	h.edit = func(*model.Snapshot) {}
	h.tick()
	if h.View().Snapshot == newest {
		t.Error("the next one is passed over too")
	}
}

// State about VMs that are gone is dropped.
func TestMemoriesAreBoundedByTheVMsThere(t *testing.T) {
	h := newHand(t, Options{Parallel: 4, Backoff: time.Hour, BackoffMax: time.Hour, RetryDelay: time.Millisecond})
	h.vfs = 1
	for i := range 300 { // VMs come, fail, and go
		id := model.VMID(string(rune('A' + i)))
		h.edit = func(s *model.Snapshot) {
			vm := s.VMs[0]
			vm.ID = id
			vm.NICs = []model.NIC{vm.NICs[0]}
			s.VMs = []model.VM{vm}
			s.PFs[0].SelfFDB = s.PFs[0].SelfFDB[:1]
		}
		h.do(h.tick(), failing(model.StepAttach, errors.New("no")))
	}
	h.edit = func(s *model.Snapshot) { s.VMs = s.VMs[:0] }
	for range sweepEvery + 1 {
		h.tick()
	}
	for what, n := range map[string]int{
		"failures": len(h.fails), "idle guests": len(h.idle), "costs": len(h.costs.byVM), "ended moves": len(h.unseen.moves),
		"freed VFs": len(h.unseen.freed),
		"bad VFs":   len(h.badVFs), "repairs": len(h.repairs.tries), "filters": len(h.filters.added),
	} {
		if n > 2 {
			t.Errorf("%s: %d are remembered, and no VM is there", what, n)
		}
	}
	if n := len(h.View().Recent); n > keepRecent {
		t.Errorf("%d recent moves", n)
	}
}
