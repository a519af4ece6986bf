package loop

import (
	"testing"
	"time"

	"sluice/internal/model"
)

// A fault that comes back after each repair is caused by somebody else, or by another repair: two that undo each other must not
// continue at every sample.
func TestRepairsThatAreUndoneAreDamped(t *testing.T) {
	h := newHand(t, Options{Parallel: 4})
	h.has = map[model.VMID]int{"a": 0}
	h.vfs = 1
	repairs := 0
	for i := range 300 {
		h.edit = func(*model.Snapshot) {}
		if i%2 == 0 {
			h.edit = deaf
		}
		if did := h.do(h.tick(), works); len(did) > 0 {
			repairs++
		}
	}
	if most := 8 + int(300*time.Second/repairEvery); repairs < 5 || repairs > most {
		t.Errorf("%d repairs in 300 s of a fault that comes back every 2 s, want some and at most %d", repairs, most)
	}
	h.edit = func(*model.Snapshot) {}
	for range 3 * int(repairEvery/time.Second) {
		h.tick()
	}
	h.edit = deaf
	if did := h.do(h.tick(), works); len(did) == 0 {
		t.Error("a fault that comes back minutes later waits")
	}
	if len(h.repairs.tries) != 1 {
		t.Errorf("remembers %d findings, one is there", len(h.repairs.tries))
	}
}

// Repairs that can wait leave room for moves, and do not all begin at once.
func TestOtherRepairsTakeTheirTurn(t *testing.T) {
	h := newHand(t, Options{Parallel: 1})
	h.vfs = 1
	h.edit = func(s *model.Snapshot) { // 50 VMs that VFs cannot reach, and b cut off
		for i := range 50 {
			vm := s.VMs[0]
			vm.ID = model.VMID(rune('c' + i))
			vm.NICs = []model.NIC{vm.NICs[0]}
			vm.NICs[0].MAC, vm.NICs[0].Failover = model.MAC{9, byte(i)}, model.FailoverNone
			s.VMs = append(s.VMs, vm)
		}
		s.PFs[0].VFs[0].Holder, s.PFs[0].VFs[0].Owner = "x", model.OwnerForeign
		s.VMs[1].NICs[0].Route = "pf0"
	}
	steps := h.tick()
	if len(steps) != othersAtOnce || steps[0].Kind != model.StepRouteToTap {
		t.Errorf("begun: %v; want %d, the repair of b first", steps, othersAtOnce)
	}
	if n := len(h.View().Pending); n != 51-othersAtOnce {
		t.Errorf("%d repairs wait, want %d", n, 51-othersAtOnce)
	}
	more := h.Finish(h.now, steps[1].ID, nil)
	if len(more) != 1 || more[0].Kind != model.StepAddSelf {
		t.Errorf("after one more begins: %v", more)
	}
}
