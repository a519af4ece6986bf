package model

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPortSLA(t *testing.T) {
	port := func(tap string, last byte, s SLA) Port {
		s.Source = SourceOfPort(tap)
		return Port{ID: tap, Tap: tap, MAC: MAC{2, last}, SLA: s}
	}
	rules := Rules{
		Ports: []Port{
			port("tap0", 0, SLA{Guarantee: Rate{2e9, 10e3}, Limit: Rate{Packets: 40e3}}),
			port("tap1", 1, SLA{Guarantee: Rate{1e9, 20e3}, Limit: Rate{Bits: 5e9}}),
			port("tap2", 2, SLA{Receive: Rate{Bits: 1e9}}),
			port("tap3", 9, SLA{Limit: Rate{Bits: 1}}), // another NIC had that tap
		},
		VMs: []VMRule{{Match: "db", SLA: SLA{Limit: Rate{Bits: 9e9}, Source: "rule"}}},
	}
	vm := VM{Name: "db"}
	for i := range 4 {
		vm.NICs = append(vm.NICs, NIC{Tap: "tap" + string(rune('0'+i)), MAC: MAC{2, byte(i)}})
	}
	check := func(what string, nic int, want SLA) {
		t.Helper()
		if diff := cmp.Diff(want, rules.SLA(&vm, &vm.NICs[nic])); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	check("packets of two ports add up", 0, SLA{Guarantee: Rate{2e9, 30e3}, Limit: Rate{9e9, 40e3}, Source: "Neutron port tap0; rule"})
	check("a limit before a rule's", 1, SLA{Guarantee: Rate{1e9, 30e3}, Limit: Rate{Bits: 5e9}, Source: "Neutron port tap1"})
	check("what it does not ask for", 2, SLA{Receive: Rate{Bits: 1e9}, Limit: Rate{Bits: 9e9}, Source: "Neutron port tap2; rule"})
	check("another MAC", 3, SLA{Limit: Rate{Bits: 9e9}, Source: "rule"})
	vm.SLAs = []NICSLA{{SLA: SLA{Guarantee: Rate{Bits: 7e9}, Source: "metadata"}}}
	check("after metadata", 1, SLA{Guarantee: Rate{7e9, 30e3}, Limit: Rate{Bits: 5e9}, Source: "metadata; Neutron port tap1"})
	vm.NICs[2].VirtualPF = "vpf0"
	check("a function of a virtual PF", 2, SLA{Guarantee: Rate{Bits: 7e9}, Limit: Rate{Bits: 9e9}, Source: "metadata; rule"})
}

// Who asks for more than before asks anew; for as much or less, it keeps its turn.
func TestKeepTurns(t *testing.T) {
	ask := func(id string, bits, packets uint64) Port {
		return Port{ID: id, SLA: SLA{Guarantee: Rate{bits, packets}}}
	}
	var ports []Port
	for _, step := range []struct {
		now  []Port
		want []uint64
	}{
		{[]Port{ask("a", 2, 2), ask("b", 2, 2)}, []uint64{1, 1}},
		{[]Port{ask("a", 2, 2), ask("b", 2, 2), ask("c", 1, 0)}, []uint64{1, 1, 2}},
		{[]Port{ask("a", 1, 2), ask("b", 2, 3), ask("c", 1, 0)}, []uint64{1, 3, 2}},
		{[]Port{ask("b", 2, 3)}, []uint64{3}},
		{[]Port{ask("a", 1, 2), ask("b", 0, 0)}, []uint64{4, 3}},
		{nil, nil},
	} {
		ports = KeepTurns(ports, step.now)
		var turns []uint64
		for _, p := range ports {
			turns = append(turns, p.Since)
		}
		if diff := cmp.Diff(step.want, turns); diff != "" {
			t.Errorf("%v: %s", step.now, diff)
		}
	}
}
