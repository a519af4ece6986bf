package plan

import (
	"testing"

	"sluice/internal/model"
)

func limit(vm model.VMID, bits uint64) model.Limit {
	return model.Limit{LimitKey: model.LimitKey{VM: vm, NIC: "ua-0", Path: model.PathVF, Dir: model.Tx}, Rate: model.Rate{Bits: bits}}
}

// A plug sets the limit before the VF's MAC, because the VF carries frames once it has the MAC.
func TestPlugCarriesItsLimit(t *testing.T) {
	s := world()
	to := target(s, model.Assignment{VM: "a", NIC: "ua-0", VF: vf0}, model.Assignment{VM: "b", NIC: "ua-0", VF: vf1})
	to.Limits = []model.Limit{limit("a", 3e9), limit("b", 2e9)}
	moves := Diff(s, to, nobody{}, DefaultTimeouts)
	if len(moves) != 1 {
		t.Fatalf("planned\n%s", text(moves))
	}
	set := 0
	for _, st := range moves[0].Steps {
		switch st.Kind {
		case model.StepSetVF:
			set++
			if st.VF.MaxTxRate != 2e9 {
				t.Errorf("%s: %d bit/s, want 2e9", st, st.VF.MaxTxRate)
			}
		case model.StepSetMAC:
			if set == 0 {
				t.Error("the MAC comes before the limit")
			}
		}
	}
}
