package sim

import (
	"testing"
	"time"

	"sluice/internal/model"
)

// pair makes a host whose last VM has a second NIC on a network of its own, with a PF that has a VF for it.
func pair(t *testing.T) (h *host, first, second *NIC) {
	h = newHost(t, 3, 1, model.Rules{Policy: "activity", Interval: 3 * time.Second})
	h.World.AddPF("pf8", "br8", 1, 0)
	v := h.World.VMs()[2]
	second = h.World.AddNIC(v, "br8", 0.2)
	return h, v.NICs[0], second
}

// stuckPlug makes a pair whose first NIC has a VF, and whose guest does not see the VF that is being plugged for the second.
func stuckPlug(t *testing.T) (h *host, first, second *NIC) {
	t.Helper()
	h, first, second = pair(t)
	h.opts.Timeouts.Guest = time.Minute
	h.boot()
	h.World.pf("pf8").LinkUp = false // so that the second NIC comes later
	h.run(6 * time.Second)
	h.want("vm2 ")
	h.World.pf("pf8").LinkUp = true
	h.World.FailPart = func(s model.Step, _ int) error { // the guest sees no device
		if s.Kind == model.StepAttach && s.Device.NIC == second.Alias {
			first.VM.NoDriver = true
		}
		return nil
	}
	h.run(6 * time.Second)
	if v := h.Core.View(); len(v.Active) != 1 || v.Active[0].Move.NIC != second.Alias {
		t.Fatalf("the plug of the second NIC is not stuck\n%s", h.dump())
	}
	return h, first, second
}

// A VM with two NICs gets a VF for each, and nobody is cut off meanwhile.
func TestTwoNICs(t *testing.T) {
	h, _, _ := pair(t)
	h.neverCutOff()
	h.run(8 * time.Second)
	h.want("vm2 vm2/ua-net1 ")
	if err := h.sound(); err != nil {
		t.Error(err)
	}
}

// A NIC that is cut off is repaired at once even while the plug of another NIC of its VM is stuck in the guest.
func TestRepairBesideAMoveOfTheVM(t *testing.T) {
	h, first, second := stuckPlug(t)
	h.OnEvent = h.meter.Note
	h.At(h.World.Now, func() { h.World.fdb[first.address()] = first.tap })
	h.run(10 * time.Second)
	if got := h.meter.Stop(h.World.Now); got.most() > h.Sample+50*time.Millisecond {
		t.Errorf("%s\n%s", h.meter.story, h.dump())
	}
	if v := h.Core.View(); len(v.Active) != 1 || v.Active[0].Move.NIC != second.Alias {
		t.Errorf("the plug did not continue\n%s", h.dump())
	}
}

// A NIC leaves a VF whose PF has lost its link even while the plug of another NIC of its VM is stuck in the guest: the plug is undone.
func TestLinkLostBesideAStuckPlug(t *testing.T) {
	h, _, _ := stuckPlug(t)
	h.OnEvent = h.meter.Note
	h.At(h.World.Now, func() { h.World.pf("pf0").LinkUp = false })
	h.run(10 * time.Second)
	if got := h.meter.Stop(h.World.Now); got.most() > 3*time.Second {
		t.Errorf("%s\n%s", h.meter.story, h.dump())
	}
}

// Both NICs of a VM whose guest falls back to virtio are repaired at the first Snapshot, beginning with what cuts them off.
func TestBothNICsAreRepairedAtOnce(t *testing.T) {
	h, first, _ := pair(t)
	h.run(8 * time.Second)
	h.want("vm2 vm2/ua-net1 ")
	h.OnEvent = h.meter.Note
	h.At(h.World.Now, func() { h.World.UnloadDriver(first.VM) })
	h.run(10 * time.Second)
	if got := h.meter.Stop(h.World.Now); got.most() > h.Sample+50*time.Millisecond {
		t.Errorf("%s\n%s", h.meter.story, h.dump())
	}
}

// A VF that moves from one NIC of a VM to another is removed from the first before it is set up for the second.
func TestVFGoesToTheOtherNICOfItsVM(t *testing.T) {
	h := newHost(t, 3, 1, model.Rules{Policy: "activity", Interval: 3 * time.Second})
	h.neverCutOff()
	v := h.World.VMs()[2]
	second := h.World.AddNIC(v, "br0", 0.1)
	h.OnStep = func(s model.Step) Verdict {
		if at := h.World.holder(s.VFID()); s.Kind == model.StepBindVFIO && at != nil {
			t.Errorf("%s at %s, but %s has the VF", s, h.World.Now.Sub(epoch), at)
		}
		return Verdict{}
	}
	h.run(6 * time.Second)
	h.want("vm2 ")
	v.NICs[0].Share, second.Share = second.Share, v.NICs[0].Share
	h.run(10 * time.Second)
	h.want("vm2/ua-net1 ")
	if err := h.sound(); err != nil {
		t.Error(err)
	}
	for _, m := range h.Core.View().Recent {
		if m.Error != "" {
			t.Errorf("%s of %s: %s", m.Move.Kind, m.Move.NIC, m.Error)
		}
	}
}
