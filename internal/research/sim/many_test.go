package sim

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/model"
)

// manyVMs makes a host with 5,000 VMs on virtio and 64 free VFs.
func manyVMs(t testing.TB, rules model.Rules) *host {
	h := newHost(t, 0, 64, rules)
	h.opts.Parallel = 4
	h.boot()
	h.World.Timing.Kernel = 2 * time.Millisecond
	for i := range 5000 {
		h.World.AddVM(i, fmt.Sprintf("vm%d", i), "br0", Constant{PPS: float64(1000 + i*7919%1000)})
	}
	return h
}

// After a start every VM on virtio needs a filter of the PF. These thousands of repairs must delay neither placement nor a VM that is cut
// off.
func TestStartWithManyVMs(t *testing.T) {
	h := manyVMs(t, model.Rules{Policy: "adaptive", Interval: 5 * time.Minute})
	repairs, most := map[model.VMID]bool{}, 0
	var begun, ended time.Time
	deaf := h.World.VMs()[4321]
	h.OnStep = func(s model.Step) Verdict {
		if s.Kind == model.StepAddSelf {
			repairs[s.Subject.VM] = true
			most = max(most, len(repairs))
		}
		if s.Kind == model.StepRouteToTap && s.Subject.VM == deaf.ID {
			ended = h.World.Now
		}
		return Verdict{}
	}
	h.OnMove = func(m model.MoveStatus) { delete(repairs, m.Move.VM) }
	h.At(epoch.Add(1500*time.Millisecond), func() {
		begun = h.World.Now
		h.World.fdb[deaf.NICs[0].address()] = "pf0"
	})
	h.run(15 * time.Second)
	serving := 0
	for _, v := range h.World.VMs() {
		if _, open := v.Holds(); open {
			serving++
		}
	}
	if serving != 64 {
		t.Errorf("15 s after the start %d of 64 VFs serve a VM", serving)
	}
	if most > 20 {
		t.Errorf("%d filters were set at once", most)
	}
	if wait := ended.Sub(begun); ended.IsZero() || wait > h.Sample {
		t.Errorf("a VM that is cut off waits %s for its repair", wait)
	}
	h.run(30 * time.Second)
	if f := h.Core.View().Findings; len(f) > 0 {
		t.Errorf("45 s after the start there are %d findings, such as %+v", len(f), f[0])
	}
}
