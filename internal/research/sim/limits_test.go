package sim

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/model"
)

var tierRules = model.Rules{
	Policy: "vnraf", Interval: 5 * time.Second,
	Params: model.Params{"vf0_mbit": 1000, "delta_mbit": 500, "link_mbit": 10000},
}

// TestTiersAreEnforced follows vnraf's tiers to the VFs' max_tx_rate: at the plug, when
// needs change (without a Step), and lifted when another policy takes over.
func TestTiersAreEnforced(t *testing.T) {
	h := newHost(t, 4, 2, tierRules)
	h.neverCutOff()
	h.run(4 * time.Second)
	h.rates("vm2 1000 vm3 1500 ")
	h.loads[2].pps, h.loads[3].pps = 9000, 3000
	h.OnStep = func(s model.Step) Verdict {
		t.Errorf("two new rates took the step %s", s)
		return Verdict{}
	}
	h.run(15 * time.Second)
	h.rates("vm2 1500 vm3 1000 ")
	h.OnStep = nil
	h.loads[0].pps = 20000
	h.run(15 * time.Second)
	h.rates("vm0 1500 vm2 1000 ")
	h.setRules(model.Rules{Policy: "activity", Interval: 5 * time.Second})
	h.run(5 * time.Second)
	h.rates("vm0 0 vm2 0 ")
	if err := h.sound(); err != nil {
		t.Error(err)
	}
}

// A daemon lifts limits of its predecessor that it does not know.
func TestLimitsAreLiftedAfterARestart(t *testing.T) {
	h := newHost(t, 4, 2, tierRules)
	h.run(4 * time.Second)
	h.rates("vm2 1000 vm3 1500 ")
	h.Kill()
	h.rules = model.Rules{Policy: "activity", Interval: 5 * time.Second}
	h.boot()
	h.run(5 * time.Second)
	h.rates("vm2 0 vm3 0 ")
}

// The limit is in force before the VF carries a frame, when its MAC is set.
func TestLimitStandsBeforeTheMAC(t *testing.T) {
	h := newHost(t, 4, 2, tierRules)
	seen := 0
	h.OnStep = func(s model.Step) Verdict {
		if vf := h.World.vf(s.VF.ID); s.Kind == model.StepSetMAC {
			if seen++; vf.MaxTxRate == 0 {
				t.Errorf("%s, but the VF has no limit yet", s)
			}
		}
		return Verdict{}
	}
	h.run(4 * time.Second)
	if seen != 2 {
		t.Errorf("%d plugs, want 2", seen)
	}
}

// Rates that are not whole Mbit/s, such as a share of the link, are applied only once.
func TestLimitsConvergeForOddRates(t *testing.T) {
	h := newHost(t, 4, 2, tierRules)
	h.run(4 * time.Second)
	h.OnStep = func(s model.Step) Verdict {
		t.Errorf("step %s", s)
		return Verdict{}
	}
	applied := 0
	h.World.FailLimit = func(model.Limit) error { applied++; return nil }
	odd := h.World.vf(model.VFID{PF: "pf0", Index: 0})
	odd.MaxTxRate = 999_600_000 // as no kernel would show it
	h.run(10 * time.Second)
	if applied != 1 || odd.MaxTxRate%1e6 != 0 {
		t.Errorf("applied %d times, now %d bit/s; want it once", applied, odd.MaxTxRate)
	}
}

// A PF that cannot limit its VFs is never asked to. If only a trial can tell, it is retried from time to time.
func TestLimitsThatCannotBeHad(t *testing.T) {
	for _, c := range []struct {
		can  model.Tri
		asks int
	}{{model.No, 0}, {model.Unknown, 4}} {
		h := newHost(t, 4, 2, tierRules)
		h.World.PFs()[0].Caps.MaxTxRate = c.can
		asked := 0
		h.World.FailLimit = func(model.Limit) error { asked++; return errFault }
		h.World.Patch = func(s *model.Snapshot) { // the driver took set-vf and shows no rate
			for i := range s.PFs[0].VFs {
				s.PFs[0].VFs[i].MaxTxRate = 0
			}
		}
		h.run(40 * time.Second)
		if asked != c.asks {
			t.Errorf("can limit: %s: asked %d times in 40 s, want %d", c.can, asked, c.asks)
		}
	}
}

func (h *host) setRules(r model.Rules) {
	h.t.Helper()
	h.rules = r
	if err := h.Core.SetRules(r); err != nil {
		h.t.Fatal(err)
	}
}

// rates compares the holders' rates in Mbit/s.
func (h *host) rates(want string) {
	h.t.Helper()
	got := ""
	for _, v := range h.World.VMs() {
		if id, open := v.Holds(); open {
			got += fmt.Sprintf("%s %d ", v.Name, h.World.vf(id).MaxTxRate/1e6)
		}
	}
	if got != want {
		h.t.Errorf("at %s: rates %q, want %q\n%s", h.World.Now.Sub(epoch), got, want, h.dump())
	}
}
