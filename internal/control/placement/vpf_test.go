package placement

import (
	"strings"
	"testing"

	"sluice/internal/model"
)

// functions gives the VM a virtual PF with a VF.
func functions(vm *model.VM, network string, pps float64) {
	for i, vf := range []int{-1, 0} {
		n := nic(vm, network, pps)
		n.Alias, n.Failover = model.VPFAlias("vpf0", vf), model.FailoverNone
		n.VirtualPF, n.Function, n.FreePort = "vpf0", i, model.No
	}
}

// A VM with a virtual PF and an ordinary NIC gets a VF for that NIC as before, whatever its functions transfer.
func TestFunctionsAreNoCandidates(t *testing.T) {
	for name, rules := range map[string]model.Rules{
		"teaming":            {},
		"bond":               {VMs: []model.VMRule{{Match: "*", Failover: model.FailoverBond}}},
		"named by a network": {VMs: []model.VMRule{{Match: "*", NIC: "br0"}}},
		"guaranteed":         {VMs: []model.VMRule{{Match: "*", SLA: model.SLA{Guarantee: model.Rate{Bits: 1e8}}}}},
	} {
		s := newScene().pf("pf0", "br0", 4, 0)
		s.PFs[0].Caps.MaxTxRate = model.Yes
		s.vm("br0", 5)
		functions(&s.VMs[0], "br0", 1e6)
		s.vm("br0", 1)
		got := decider(t, rules).Decide(start, &s.Snapshot, &Hints{})
		if said := nicsSaid(s, got); said != "vm0/net0:pf0/0 vm1/net0:pf0/1" {
			t.Errorf("%s: %s", name, said)
		}
		if len(got.Reasons) != 2 || len(got.NICs) != 0 {
			t.Errorf("%s: %d reasons, and %d of NICs: %v", name, len(got.Reasons), len(got.NICs), got.NICs)
		}
	}
}

// A VM all of whose NICs are functions stays on virtio, and its Reason does not complain about failover.
func TestVMOfFunctionsAlone(t *testing.T) {
	s := newScene().pf("pf0", "br0", 4, 0)
	vm := s.vm("br0", 5)
	vm.NICs = nil
	functions(vm, "br0", 1e6)
	got := decider(t, model.Rules{VMs: []model.VMRule{{Match: "*", Failover: model.FailoverBond}}}).Decide(start, &s.Snapshot, &Hints{})
	if why := got.Reasons[0]; len(got.Assign) > 0 || !strings.Contains(why.Detail, "functions of virtual PF vpf0") ||
		strings.Contains(why.Detail, "teaming") {
		t.Errorf("assigned %v, since %s", got.Assign, why)
	}
}

// The SLA of a virtual PF counts once on its link, and not for each function.
func TestPromiseOfAVirtualPF(t *testing.T) {
	s := newScene().pf("pf0", "br0", 1, 0)
	functions(s.vm("br0", 5), "br0", 1)
	p := promisesOf(&model.Rules{VMs: []model.VMRule{{Match: "*", SLANIC: "ua-vpf-*", SLA: model.SLA{Guarantee: model.Rate{Bits: 1e9}}}}},
		&s.Snapshot)
	if of := p.linked["br0"]; len(of) != 1 || of[0].NIC != "ua-vpf-vpf0-pf" {
		t.Errorf("promised on br0: %v", of)
	}
}
