package doctor

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
)

// The order of shared MACs depends only on the Snapshot, also within a VM.
func TestSameMACsAreSorted(t *testing.T) {
	s := &model.Snapshot{}
	for _, name := range []string{"a", "b"} {
		vm := model.VM{ID: model.VMID(name), Name: name, State: model.VMRunning}
		for i := range byte(5) {
			vm.NICs = append(vm.NICs, model.NIC{Alias: string('0' + rune(i)), MAC: model.MAC{2, i}, Network: "br0"})
		}
		s.VMs = append(s.VMs, vm)
	}
	want := sameMACs(s)
	if len(want) != 10 {
		t.Fatalf("%d problems, want one for each NIC", len(want))
	}
	for range 20 {
		if diff := cmp.Diff(want, sameMACs(s)); diff != "" {
			t.Fatal(diff)
		}
	}
}

// VFs in somebody's rate node are named, but not those that Sluice does not use.
func TestRateNodesAreNamed(t *testing.T) {
	pf := model.PF{Name: "pf0", Address: "0000:03:00.0", Managed: true, Caps: model.Caps{VFCounters: model.Yes}}
	for i, node := range []string{"", "gold", "silver"} {
		pf.VFs = append(pf.VFs, model.VF{ID: model.VFID{PF: "pf0", Index: i}, RateNode: node, Owner: model.OwnerFree})
	}
	pf.VFs[2].Owner, pf.VFs[2].OwnerWhy = model.OwnerForeign, model.NotInPool
	want := problem("pf0", "VFs in rate nodes that Sluice did not make: pf0/1 (gold). A node can hold them below their limits, and the NIC "+
		"guarantees them nothing", "leave them there if that is meant; else see devlink port function rate show, and for each: "+
		"devlink port function rate set pci/0000:03:00.0/PORT noparent")
	if got := pfAdvice(&pf); len(got) != 2 || got[1] != want {
		t.Errorf("%+v", got)
	}
}
