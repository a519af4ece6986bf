package sim

import (
	"testing"
	"time"

	"sluice/internal/model"
)

// A plug that is stuck in its guest ends when its VM loses the VF again: the next VM has it long before the guest's deadline, and nobody is
// cut off meanwhile.
func TestReleaseEndsAStuckPlug(t *testing.T) {
	for name, rules := range map[string]model.Rules{
		"released": {Policy: "activity", Interval: 5 * time.Second, VMs: []model.VMRule{{Match: "vm2", Forbid: true, ByHand: true}}},
		"drained":  {Policy: "activity", Interval: 5 * time.Second, Drain: true},
	} {
		h := newHost(t, 3, 1, model.Rules{Policy: "activity", Interval: 5 * time.Second})
		h.opts.Timeouts.Guest = time.Minute
		h.boot()
		h.neverCutOff()
		h.World.VMs()[2].NoDriver = true
		h.run(5 * time.Second)
		if v := h.Core.View(); len(v.Active) != 1 || v.Active[0].Move.VMName != "vm2" {
			t.Fatalf("vm2's plug is not stuck\n%s", h.dump())
		}
		h.setRules(rules)
		h.run(5 * time.Second)
		if name == "released" {
			h.want("vm1 ")
		}
		if id, _ := h.World.VMs()[2].Holds(); id != model.NoVF {
			t.Errorf("%s: vm2 still has VF %s", name, id)
		}
		h.OnEvent = nil
		h.setRules(model.Rules{Policy: "activity", Interval: 5 * time.Second})
		h.World.LoadDriver(h.World.VMs()[2])
		h.run(10 * time.Second)
		h.want("vm2 ") // it does not rest: nothing failed
		if err := h.sound(); err != nil {
			t.Error(err)
		}
	}
}
