package plan

import (
	"slices"

	"sluice/internal/model"
)

// rateOf is what the Target lets an Assignment's VF send, in bits/s; 0: no limit.
func rateOf(t *model.Target, a *model.Assignment) uint64 {
	return bits(t.Limits, model.LimitKey{VM: a.VM, NIC: a.NIC, Path: model.PathVF, Dir: model.Tx})
}

func bits(limits []model.Limit, key model.LimitKey) uint64 {
	i, ok := slices.BinarySearchFunc(limits, key, func(l model.Limit, k model.LimitKey) int { return model.CompareKeys(l.LimitKey, k) })
	if !ok {
		return 0
	}
	return limits[i].Bits
}

// Limits lists what must be applied for the Target's Limits to be true, among them the
// ones to lift (0 bits/s). What is true now the Snapshot shows, so nothing of it is
// lost in a restart. It looks at VFs that Sluice attached, whose settings are Sluice's
// alone; a free VF's are clear-vf's matter. NICs under way are left to their Moves: a
// plug sets the limit before its VF carries a frame.
func Limits(snap *model.Snapshot, target *model.Target, busy Busy) []model.Limit {
	var out []model.Limit
	for i := range snap.VMs {
		vm := &snap.VMs[i]
		for j := range vm.NICs {
			n := &vm.NICs[j]
			if n.VF == model.NoVF || n.VFOwner != model.OwnerSluice {
				continue
			}
			l := model.Limit{LimitKey: model.LimitKey{VM: vm.ID, NIC: n.Alias, Path: model.PathVF, Dir: model.Tx}}
			l.Bits = model.WholeMbit(bits(target.Limits, l.LimitKey))
			if vf := snap.FindVF(n.VF); vf != nil && vf.MaxTxRate != l.Bits && !busy.NIC(model.NICID{VM: vm.ID, NIC: n.Alias}) {
				out = append(out, l)
			}
		}
	}
	return out
}
