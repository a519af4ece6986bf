package model

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// For each field the order is: run-time request, metadata, the first rule that matches, the class. Source names exactly those
// that set something.
func TestSLAIsThatOfTheNearest(t *testing.T) {
	nic := NIC{Alias: "ua-net0", Network: "br0"}
	rules := Rules{
		VMs: []VMRule{
			{Match: "db", ByHand: true, SLA: SLA{Guarantee: Rate{Bits: 1}, Source: "hand"}},
			{Match: "db", SLANIC: "ua-net1", SLA: SLA{Limit: Rate{Bits: 99}, Source: "other NIC"}},
			{Match: "db", SLANIC: "ua-net0", SLA: SLA{Limit: Rate{Bits: 40}, Source: "rule 1"}},
			{Match: "*", Class: "gold", SLA: SLA{Guarantee: Rate{Bits: 3, Packets: 30}, Limit: Rate{Bits: 50, Packets: 500}, Source: "rule 2"}},
			{Match: "web", SLA: SLA{Guarantee: Rate{Bits: 77}, Source: "other VM"}},
		},
		Classes: []Class{
			{Name: "gold", Priority: 7, SLA: SLA{Limit: Rate{Bits: 60}, Receive: Rate{Bits: 8}, Weight: 4, ClassMin: 5, Source: "gold"}},
			{Name: "lead", Priority: 1, SLA: SLA{Receive: Rate{Bits: 9}, Source: "lead"}},
		},
	}
	for _, tc := range []struct {
		name string
		slas []NICSLA
		want SLA
	}{
		{"no metadata", nil, SLA{
			Guarantee: Rate{1, 30}, Limit: Rate{40, 500}, Receive: Rate{Bits: 8}, Weight: 4, Class: "gold", Priority: 7, ClassMin: 5,
			Source: "hand; rule 1; rule 2; gold",
		}},
		{
			"metadata before rules and after what was set by hand",
			[]NICSLA{{SLA: SLA{Guarantee: Rate{2, 20}, Limit: Rate{Bits: 30}, Source: "metadata"}}},
			SLA{
				Guarantee: Rate{1, 20}, Limit: Rate{30, 500}, Receive: Rate{Bits: 8}, Weight: 4, Class: "gold", Priority: 7, ClassMin: 5,
				Source: "hand; metadata; rule 2; gold",
			},
		},
		{"metadata of another NIC", []NICSLA{{NIC: "ua-net1", SLA: SLA{Limit: Rate{Bits: 30}, Source: "metadata"}}}, SLA{
			Guarantee: Rate{1, 30}, Limit: Rate{40, 500}, Receive: Rate{Bits: 8}, Weight: 4, Class: "gold", Priority: 7, ClassMin: 5,
			Source: "hand; rule 1; rule 2; gold",
		}},
		{"another class", []NICSLA{{NIC: "br0", SLA: SLA{Class: "lead", Source: "metadata"}}}, SLA{
			Guarantee: Rate{1, 30}, Limit: Rate{40, 500}, Receive: Rate{Bits: 9}, Class: "lead", Priority: 1,
			Source: "hand; metadata; rule 1; rule 2; lead",
		}},
	} {
		if diff := cmp.Diff(tc.want, rules.SLA(&VM{Name: "db", SLAs: tc.slas}, &nic)); diff != "" {
			t.Errorf("%s:\n%s", tc.name, diff)
		}
	}
	if have := (&Rules{}).SLA(&VM{Name: "db"}, &nic); have != (SLA{}) {
		t.Errorf("out of nothing: %+v", have)
	}
	nameless := Rules{Classes: []Class{{SLA: SLA{Guarantee: Rate{Bits: 1}}}}}
	if have := nameless.SLA(&VM{Name: "db"}, &nic); have != (SLA{}) {
		t.Errorf("a VM without a class has that of no name: %+v", have)
	}
}

func TestClaimedSLA(t *testing.T) {
	claim := Claim{VM: "id", MAC: MAC{2, 1}, Guarantee: Rate{Bits: 2e9, Packets: 50e3}}
	rules := Rules{
		Claims:  []Claim{{VM: "ic", MAC: claim.MAC}, claim, {VM: "ie", MAC: claim.MAC}},
		Classes: []Class{{Name: "gold", SLA: SLA{Guarantee: Rate{Bits: 9e9}, Limit: Rate{Bits: 9e9}, Source: "class"}}},
		VMs:     []VMRule{{Match: "db", Class: "gold"}},
	}
	vm, nic := VM{ID: "id", Name: "db"}, NIC{Alias: "net0", MAC: claim.MAC}
	check := func(what string, bits uint64, source string) {
		t.Helper()
		if s := rules.SLA(&vm, &nic); s.Guarantee != (Rate{Bits: bits, Packets: 50e3}) || s.Source != source {
			t.Errorf("%s: %v from %q", what, s.Guarantee, s.Source)
		}
	}
	check("before the class", 2e9, "claim; class")
	rules.VMs[0].SLA = SLA{Guarantee: Rate{Bits: 1e9}, Source: "rule"}
	check("after a rule, which sets only bits", 1e9, "rule; claim; class")
	nic.MAC[5] = 1
	if s := rules.SLA(&vm, &nic); s.Guarantee.Packets != 0 {
		t.Errorf("the claim of another NIC: %v", s)
	}
	nic.MAC, nic.VirtualPF = claim.MAC, "vpf0"
	if s := rules.SLA(&vm, &nic); s.Guarantee.Packets != 0 {
		t.Errorf("a function of a virtual PF: %v", s)
	}
}
