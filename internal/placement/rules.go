package placement

import (
	"maps"

	"sluice/internal/model"
)

// rulesFor resolves the rules of every VM; the result is kept while the VMs are the same.
func (d *Decider) rulesFor(snap *model.Snapshot) []model.VMRule {
	if d.ruledAlready(snap) {
		return d.ruledBy
	}
	d.ruled, d.ruledBy = make([]model.VMID, len(snap.VMs)), make([]model.VMRule, len(snap.VMs))
	for i := range snap.VMs {
		vm := &snap.VMs[i]
		d.ruled[i], d.ruledBy[i] = vm.ID, d.rules.For(vm.ID, vm.Name)
	}
	return d.ruledBy
}

func (d *Decider) ruledAlready(snap *model.Snapshot) bool {
	if len(d.ruled) != len(snap.VMs) {
		return false
	}
	for i := range snap.VMs {
		if d.ruled[i] != snap.VMs[i].ID {
			return false
		}
	}
	return true
}

func samePolicy(a, b model.Rules) bool {
	return a.Policy == b.Policy && a.Interval == b.Interval && maps.Equal(a.Params, b.Params)
}
