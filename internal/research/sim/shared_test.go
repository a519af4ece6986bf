package sim

import (
	"testing"
	"time"

	"sluice/internal/control/plan"
	"sluice/internal/model"
)

// clone makes one VM have another's MAC.
func (h *host) clone(of, v *VM) { v.NICs[0].MAC = of.NICs[0].MAC }

// Of two VMs with the same MAC neither gets a VF, even if pinned. Both stay as reachable as they were, and repairs do not undo each other
// for ever.
func TestSharedMAC(t *testing.T) {
	for name, rules := range map[string]model.Rules{
		"":       {Policy: "activity", Interval: 3 * time.Second},
		"pinned": {Policy: "activity", Interval: 3 * time.Second, VMs: []model.VMRule{{Match: "vm2", Pin: true}}},
	} {
		h := newHost(t, 4, 2, rules)
		h.neverCutOff()
		h.clone(h.World.vms[0], h.World.vms[2])
		steps := 0
		h.OnStep = func(s model.Step) Verdict {
			if id := s.Subject.VM; id == h.World.vms[0].ID || id == h.World.vms[2].ID {
				steps++
			}
			return Verdict{}
		}
		h.run(60 * time.Second)
		h.want("vm1 vm3 ")
		if steps > 0 {
			t.Errorf("%s: %d steps for VMs that share a MAC", name, steps)
		}
		found := 0
		for _, f := range h.Core.View().Findings {
			if f.Code == plan.FindDuplicateMAC {
				found++
			}
		}
		if found != 2 {
			t.Errorf("%s: %d findings about the shared MAC, want one for each VM", name, found)
		}
	}
}

// If a VM starts with the MAC of one that is getting a VF, the plug is undone, and no bridge entry that leads to only one of them remains.
func TestSharedMACDuringAPlug(t *testing.T) {
	for _, at := range []model.StepKind{model.StepAddSelf, model.StepOpenDualPath, model.StepSetMAC, model.StepAttach, model.StepWaitGuest} {
		h := newHost(t, 2, 1, model.Rules{Policy: "activity", Interval: 3 * time.Second})
		v := h.World.vms[1]
		v.NoDriver = true // so that the plug is undone then at the latest
		h.OnStep = func(s model.Step) Verdict {
			if s.Kind == at && s.Subject.VM == v.ID {
				h.OnStep = nil
				h.World.AddVM(7, "clone", "br0", &level{pps: 1}).NICs[0].MAC = v.NICs[0].MAC
			}
			return Verdict{}
		}
		h.run(40 * time.Second)
		for x := range h.World.nics() {
			if r := h.World.Reach(x); !r.Wire || !r.Local {
				t.Errorf("%s: %s is cut off: %+v\n%s", at, x, r, h.dump())
			}
		}
		if err := h.sound(); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
}
