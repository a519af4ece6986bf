package sim

import (
	"testing"
	"time"

	"sluice/internal/model"
)

// nodeHost makes a host of 10 Gbit/s with two greedy VMs and one with 4 Gbit/s guaranteed for its virtual PF with three VFs.
func nodeHost(t *testing.T, tree bool, whole model.SLA) (*host, []*NIC) {
	t.Helper()
	h := newHost(t, 0, 2, model.Rules{Policy: "activity", Interval: 3 * time.Second})
	h.World.PFs()[0].Caps.MaxTxRate = model.Yes
	for i, name := range []string{"best1", "best2"} {
		h.World.AddVM(i, name, "br0", &sends{10 * gbit}).NICs[0].Flows = 8
	}
	node := h.World.AddVM(2, "node", "br0", &sends{})
	vfs := h.World.AddVirtualPF(node, "vpf0", "br0", &sends{10 * gbit}, &sends{10 * gbit}, &sends{10 * gbit})
	vfs[0].Function.Inside = model.SLA{Guarantee: model.Rate{Bits: 2e9}}
	vfs[1].Function.Inside = model.SLA{Weight: 3}
	h.rules.VMs, h.rules.KeepSLAs = []model.VMRule{{Match: "node", SLANIC: model.VPFAlias("vpf0", -1), SLA: whole}}, true
	if err := h.Core.SetRules(h.rules); err != nil {
		t.Fatal(err)
	}
	h.World.StartTraffic(&Traffic{Delay: 20 * time.Millisecond, Tree: tree})
	h.control()
	h.StartControl(200 * time.Millisecond)
	return h, vfs
}

func sending(nics []*NIC) (sum float64) {
	for _, n := range nics {
		sum += n.rate
	}
	return sum
}

// Functions get the guarantee and limit of their virtual PF, divided by their own SLAs, against VMs with many flows, one of which moves to
// a VF, and with or without a tree for the other taps.
func TestVirtualPFIsDividedOnAHost(t *testing.T) {
	for _, tree := range []bool{false, true} {
		h, vfs := nodeHost(t, tree, model.SLA{Guarantee: model.Rate{Bits: 4e9}, Limit: model.Rate{Bits: 4e9}})
		near := func(when string, got, want float64) {
			t.Helper()
			if got < 0.95*want || got > 1.01*want {
				t.Errorf("tree %v, %s: %.3g Gbit/s, want %.3g", tree, when, got/gbit, want/gbit)
			}
		}
		h.run(20 * time.Second)
		near("all functions", sending(vfs), 4*gbit)
		near("vf0", vfs[0].rate, 2.4*gbit) // its guarantee, and of the rest one part of five; the PF itself has one too, and leaves it
		near("vf1", vfs[1].rate, 1.2*gbit)
		near("vf2", vfs[2].rate, 0.4*gbit)
		vfs[0].Function.NoCarrier = true
		h.run(3 * time.Second) // its siblings are held down, so what it leaves is kept for them
		near("without vf0", sending(vfs), 4*gbit)
		near("vf1 without vf0", vfs[1].rate, 3*gbit)
		for n := range h.World.nics() {
			if id, _ := n.Holds(); n.Function != nil && id != model.NoVF {
				t.Errorf("%s has %s", n, id)
			}
		}
		if id, _ := h.World.VMs()[0].Holds(); id == model.NoVF {
			t.Error("best1 has no VF: nothing was tried")
		}
	}
}

// After the daemon is killed and the leases have ended, each function keeps its part of the limit, and together they keep to it.
func TestVirtualPFKeepsItsLimitWithoutDaemon(t *testing.T) {
	h, vfs := nodeHost(t, false, model.SLA{Limit: model.Rate{Bits: 2e9}})
	for _, v := range h.World.VMs()[:2] {
		v.Load.(*sends).bits = gbit
	}
	vfs[0].Function.Load.(*sends).bits, vfs[0].Function.Inside = 0, model.SLA{}
	h.run(10 * time.Second)
	if got := sending(vfs); got < 1.9e9 || got > 2e9 {
		t.Errorf("two send %.3g Gbit/s", got/gbit)
	}
	h.Kill()
	vfs[0].Function.Load.(*sends).bits = 10 * gbit
	h.run(model.LimitLease + time.Second)
	if got := sending(vfs); got < 1.6e9 || got > 2e9 {
		t.Errorf("without a daemon all send %.3g Gbit/s, want five sixths of the 2 Gbit/s: the PF itself has a part", got/gbit)
	}
	if got := vfs[0].rate; got < 0.3e9 {
		t.Errorf("vf0, which was idle, has %.3g Gbit/s", got/gbit)
	}
}
