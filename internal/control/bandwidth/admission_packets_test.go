package bandwidth

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
)

// Limits that together exceed what the host carries are reported for information: nothing is refused, and nobody is promised less.
func TestPacketLimitsAboveTheHost(t *testing.T) {
	limit := func(kpps uint64) func(*Asked) { return func(a *Asked) { a.SLA.Limit.Packets = kpps * 1000 } }
	onVF := func(a *Asked) { a.OnVF = true }
	function := func(a *Asked) { a.VirtualPF = "vpf0" }
	whole := func(a *Asked) { a.VirtualPF, a.Whole = "vpf0", true }
	none := model.Rate{}
	const begin = "VMs on virtio may together send more packets than the host carries, so limits alone protect nobody: limits "
	// The limits of DBA-VM's experiment and the 190,000 packets/s that its host carried.
	a, b, c := ask("a", none, limit(20)), ask("b", none, limit(60)), ask("c", none, limit(60))
	for _, tc := range []struct {
		name  string
		asked []Asked
		host  uint64
		want  string
	}{
		{"less than the host carries", []Asked{a, b, c}, 190_000, ""},
		{"as much as it carries", []Asked{a, b, c}, 140_000, ""},
		{"more", []Asked{a, b, c}, 139_999, begin + "20 + 60 + 60 kpps, host 139.999 kpps"},
		{"nobody says what it carries", []Asked{a, b, c}, 0, ""},
		{"a single one", []Asked{ask("a", none, limit(200))}, 190_000, begin + "200 kpps, host 190 kpps"},
		{"who has no limit does not count", []Asked{a, ask("b", none), c}, 70_000, begin + "20 + 60 kpps, host 70 kpps"},
		{"on VFs", []Asked{a, ask("b", none, limit(60), onVF), c}, 100_000, ""},
		{"NICs of a VM share one limit", []Asked{a, a, ask("a", none, limit(30)), b}, 90_000, ""},
		{"the highest of them", []Asked{a, a, ask("a", none, limit(30)), b}, 80_000, begin + "30 + 60 kpps, host 80 kpps"},
		{"a VM with one NIC on a VF", []Asked{ask("a", none, limit(20), onVF), a}, 10_000, begin + "20 kpps, host 10 kpps"},
		{
			"functions share what their virtual PF has",
			[]Asked{ask("a", none, limit(50), function), ask("a", none, limit(50), function), ask("a", none, limit(20), whole)},
			10_000,
			begin + "20 kpps, host 10 kpps",
		},
	} {
		have := Admit(tc.asked, tc.host)
		var want []model.Problem
		if tc.want != "" {
			want = []model.Problem{{Text: tc.want, Info: true}}
		}
		for i := range have.Problems {
			have.Problems[i].Remedy = ""
		}
		if diff := cmp.Diff(want, have.Problems); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
		if len(have.Over) > 0 || have.Worse(&Admission{}) != "" {
			t.Errorf("%s: refused: %+v", tc.name, have.Over)
		}
	}
	have := Admit([]Asked{a, b}, 70_000)
	if diff := cmp.Diff("guarantee packets/s to VMs that must be able to send them (`bandwidth.allocator: waterfill` keeps that), or lower "+
		"limits where they come from: a: a.yaml:1:1; b: b.yaml:1:1 (a file: change it, then `sluice reload`)", have.Problems[0].Remedy); diff != "" {
		t.Error(diff)
	}
	pps := func(n uint64) model.Rate { return model.Rate{Packets: n} }
	have = Admit([]Asked{ask("a", pps(40_000), limit(50)), ask("b", pps(20_000), limit(50))}, 70_000)
	if diff := cmp.Diff([]model.Rate{pps(40_000), pps(20_000)}, have.Promised); diff != "" || len(have.Problems) != 1 {
		t.Errorf("guarantees that fit: %v, %s", have.Problems, diff)
	}
}
