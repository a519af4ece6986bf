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
