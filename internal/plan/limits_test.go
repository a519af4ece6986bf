package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
)

func limit(vm model.VMID, bits uint64) model.Limit {
	return model.Limit{LimitKey: model.LimitKey{VM: vm, NIC: "ua-0", Path: model.PathVF, Dir: model.Tx}, Rate: model.Rate{Bits: bits}}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name string
		want []model.Limit // by the Target
		now  uint64        // what a's VF has
		set  func(*model.Snapshot)
		busy Busy
		do   []model.Limit
	}{
		{name: "none wanted, none there"},
		{name: "a new one", want: []model.Limit{limit("a", 1e9)}, do: []model.Limit{limit("a", 1e9)}},
		{name: "there already", want: []model.Limit{limit("a", 1e9)}, now: 1e9},
		{name: "another", want: []model.Limit{limit("a", 2e9)}, now: 1e9, do: []model.Limit{limit("a", 2e9)}},
		{name: "no whole Mbit/s", want: []model.Limit{limit("a", 1_000_400_000)}, now: 1e9},
		{name: "less than a Mbit/s", want: []model.Limit{limit("a", 1)}, now: 1e6},
		{name: "no longer wanted", now: 1e9, do: []model.Limit{limit("a", 0)}},
		{name: "its VM is under way", now: 1e9, busy: only("a")},
		{name: "another NIC of its VM is under way", now: 1e9, busy: onlyNIC{model.NICID{VM: "a", NIC: "ua-1"}}, do: []model.Limit{limit("a", 0)}},
		{name: "its NIC is under way", now: 1e9, busy: onlyNIC{model.NICID{VM: "a", NIC: "ua-0"}}},
		{name: "somebody else's VF", now: 1e9, set: func(s *model.Snapshot) { s.VMs[0].NICs[0].VFOwner = model.OwnerForeign }},
		{name: "a VM without VF", want: []model.Limit{limit("b", 1e9)}},
		{name: "its PF has gone", want: []model.Limit{limit("a", 1e9)}, set: func(s *model.Snapshot) { s.PFs = nil }},
	} {
		s := world()
		s.PFs[0].VFs[0].MaxTxRate = c.now
		if c.set != nil {
			c.set(s)
		}
		if c.busy == nil {
			c.busy = nobody{}
		}
		to := target(s)
		to.Limits = c.want
		if d := cmp.Diff(c.do, Limits(s, to, c.busy)); d != "" {
			t.Errorf("%s: -want +got\n%s", c.name, d)
		}
	}
}

// A plug sets the limit before the VF's MAC, from when on it carries frames.
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
