package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
)

// limitedHost makes a host whose VMs may send 1 Gbit/s each, and whose VFs change hands.
func limitedHost(t *testing.T, rates model.Tri) *host {
	rules := model.Rules{
		Policy: "activity", Interval: 5 * time.Second, KeepSLAs: true,
		VMs: []model.VMRule{
			{Match: "vm0", SLA: model.SLA{Guarantee: model.Rate{Bits: 5e8}, Limit: model.Rate{Bits: 1e9}}},
			{Match: "*", SLA: model.SLA{Limit: model.Rate{Bits: 1e9}}},
		},
	}
	h := newHost(t, 4, 2, rules)
	h.World.PFs()[0].Caps.MaxTxRate = rates
	for _, v := range h.World.VMs() {
		v.InGuest = true
	}
	h.World.StartTraffic(&Traffic{})
	h.control()
	h.StartControl(200 * time.Millisecond)
	return h
}

// control starts a bandwidth controller that knows nothing yet.
func (h *host) control() {
	h.t.Helper()
	core, err := bandwidth.NewCore(bandwidth.Options{Mode: model.ModeEnforce, Allocator: "waterfill", Period: 200 * time.Millisecond})
	if err != nil {
		h.t.Fatal(err)
	}
	h.Bandwidth = core
}

// contractHolds checks at every event from now on that the path on which each guest sends has its limit. It returns how often a NIC was on
// a VF then.
func (h *host) contractHolds() *int {
	onVF, told := 0, 0
	h.OnEvent = func(now time.Time) {
		for n := range h.World.nics() {
			if n.open {
				onVF++
			}
			if got := h.World.allowed(n, 12000); got > 1e9 && told < 5 {
				told++
				h.t.Errorf("at %s %s may send %g bit/s (its VF %s, in use: %v)\n%s", now.Sub(epoch), n, got, n.hasVF, n.open, h.dump())
			}
		}
	}
	return &onVF
}

// A limit is in force on the path on which a guest sends, at every moment of every move, whether the VF is limited or the guest limits
// itself.
func TestSLAFollowsTheVM(t *testing.T) {
	for _, rates := range []model.Tri{model.Yes, model.No} {
		t.Run("VF rates: "+rates.String(), func(t *testing.T) {
			h := limitedHost(t, rates)
			h.run(2 * time.Second) // until the first Limits are in force
			onVF := h.contractHolds()
			moves := 0
			h.OnMove = func(m model.MoveStatus) {
				if moves++; m.Error != "" {
					t.Error(m.Error)
				}
			}
			for i := range 6 {
				for k, l := range h.loads {
					l.pps = float64(1000 * (1 + (i+k)%4))
				}
				h.run(15 * time.Second)
			}
			if moves < 6 || *onVF == 0 {
				t.Errorf("%d moves, a VF in use at %d events: nothing was tried", moves, *onVF)
			}
			for n := range h.World.nics() {
				limits := func(by string) bool {
					l := h.World.virtioLimit(by, n)
					return l != nil && !l.rate(h.World.Now).IsZero()
				}
				if !slices.ContainsFunc([]string{byTree, byPolice}, limits) {
					t.Errorf("%s has no limit on virtio", n)
				}
			}
		})
	}
}

// moveWithKill changes the loads so that VFs change hands, kills the daemon at Step number at of these moves, and starts the next one. It
// counts the Steps.
func (h *host) moveWithKill(at int, steps *int) {
	h.OnStep = func(model.Step) Verdict {
		if *steps++; *steps == at+1 {
			h.At(h.World.Now, func() {
				h.Kill()
				h.At(h.World.Now.Add(3*time.Second), func() { h.boot(); h.control() })
			})
			return Verdict{Lose: true}
		}
		return Verdict{}
	}
	h.run(8 * time.Second)
	for k, l := range h.loads {
		l.pps = float64(1000 * (4 - k))
	}
}

// The same when the daemon is killed at a Step of a move, and the next one takes over.
func TestSLAFollowsTheVMThroughKills(t *testing.T) {
	for at := range 24 {
		h := limitedHost(t, model.Yes)
		h.run(2 * time.Second)
		h.contractHolds()
		steps := 0
		h.moveWithKill(at, &steps)
		h.run(20 * time.Second)
		if steps <= at {
			t.Fatalf("there were only %d steps", steps)
		}
	}
}

// A guest that lifts the limit inside it is detected, loses its VF, and gets none for a while; others keep theirs.
func TestGuestThatLiftsItsLimitLosesItsVF(t *testing.T) {
	h := limitedHost(t, model.No)
	h.run(4 * time.Second)
	v := h.World.VMs()[3]
	if _, open := v.Holds(); !open {
		t.Fatal("vm3 has no VF")
	}
	v.Lies = true
	h.loads[3].pps = 4e6 // 3.6 Gbit/s each way
	h.run(4 * time.Second)
	if id, open := v.Holds(); open {
		t.Errorf("4 s after it lifted its limit vm3 has %s\n%s", id, h.dump())
	}
	for _, x := range h.Bandwidth.View().NICs {
		if (x.Code == model.BandwidthContained) != (x.VM == v.ID) {
			t.Errorf("%s: %s, %s", x.VMName, x.Code, x.Why)
		}
	}
	h.run(2 * time.Minute)
	if id, _ := v.Holds(); id != model.NoVF {
		t.Errorf("vm3 has %s again", id)
	}
	if why := h.Core.View().Target.Reasons[3].String(); !strings.Contains(why, "through its VF, but only 1Gbit/s were allowed") {
		t.Errorf("reason %q", why)
	}
	if id, _ := h.World.VMs()[2].Holds(); id == model.NoVF {
		t.Error("vm2, which keeps its limit, has none either")
	}
}

// A guest in which no limit can be set gets no VF, and its Reason says so.
func TestPlugWaitsForTheGuestsLimit(t *testing.T) {
	h := limitedHost(t, model.No)
	h.World.FailLimit = func(l model.Limit) error {
		if l.VM == NumberedVM(3) && l.Path == model.PathVF {
			return fmt.Errorf("the guest has no HTB")
		}
		return nil
	}
	h.run(2 * time.Second)
	h.contractHolds()
	h.run(20 * time.Second)
	v := h.Core.View()
	if id, _ := h.World.VMs()[3].Holds(); id != model.NoVF {
		t.Errorf("vm3 has %s", id)
	}
	if why := v.Target.Reasons[3].Detail; !strings.Contains(why, "the plug waits") || !strings.Contains(why, "the guest has no HTB") {
		t.Errorf("reason %q", why)
	}
	if id, _ := h.World.VMs()[2].Holds(); id == model.NoVF {
		t.Error("vm2, in whose guest limits can be set, has no VF either")
	}
}

// The same for packets/s where they can be limited at representors: no guest helps, and each that has a VF is limited there from the
// first frame on, also when the daemon is killed at a Step and the next one takes over.
func TestPacketLimitFollowsTheVM(t *testing.T) {
	const most, small = 1500, 672
	for at := -1; at < 18; at++ {
		h := limitedHost(t, model.Yes)
		for _, v := range h.World.VMs() {
			v.InGuest = false
		}
		h.World.Connect(h.World.PFs()[0], Representors)
		for i := range h.rules.VMs {
			h.rules.VMs[i].SLA.Limit.Packets = most
		}
		h.setRules(h.rules)
		h.run(2 * time.Second)
		onVF, steps := 0, 0
		h.OnEvent = func(now time.Time) {
			for n := range h.World.nics() {
				if n.open {
					onVF++
				}
				if got := h.World.allowed(n, small) / small; got > most {
					t.Fatalf("killed at step %d: at %s %s may send %g packets/s (its VF %s, in use: %v)\n%s", at, now.Sub(epoch), n, got, n.hasVF,
						n.open, h.dump())
				}
			}
		}
		h.moveWithKill(at, &steps)
		h.run(30 * time.Second)
		if steps <= at || onVF == 0 {
			t.Errorf("killed at step %d: %d steps, a VF in use at %d events: nothing was tried", at, steps, onVF)
		}
		if err := h.sound(); err != nil {
			t.Errorf("killed at step %d: %v", at, err)
		}
	}
}
