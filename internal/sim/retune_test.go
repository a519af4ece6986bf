package sim

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/model"
)

// TestTiersAreEnforced follows vnraf's tiers to the VFs' max_tx_rate: at the plug, when
// needs change (without a move), and lifted when another policy takes over.
func TestTiersAreEnforced(t *testing.T) {
	params := model.Params{"vf0_mbit": 1000, "delta_mbit": 500, "link_mbit": 10000}
	h := newHost(t, 4, 2, model.Rules{Policy: "vnraf", Interval: 5 * time.Second, Params: params})
	h.neverCutOff()
	h.run(4 * time.Second)
	h.rates("vm2 1000 vm3 1500 ")
	var did []model.StepKind
	h.OnStep = func(s model.Step) Verdict { did = append(did, s.Kind); return Verdict{} }
	h.loads[2].pps, h.loads[3].pps = 9000, 3000
	h.run(15 * time.Second)
	h.rates("vm2 1500 vm3 1000 ")
	h.loads[0].pps = 20000
	if len(did) != 2 || did[0] != model.StepSetRate {
		t.Errorf("two new rates took the steps %v, want two set-rate", did)
	}
	h.run(15 * time.Second)
	h.rates("vm0 1500 vm2 1000 ")
	h.rules = model.Rules{Policy: "activity", Interval: 5 * time.Second}
	if err := h.Core.SetRules(h.rules); err != nil {
		t.Fatal(err)
	}
	h.run(5 * time.Second)
	h.rates("vm0 0 vm2 0 ")
	if err := h.sound(); err != nil {
		t.Error(err)
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
