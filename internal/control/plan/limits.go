package plan

import (
	"slices"

	"sluice/internal/model"
)

// rateOf returns the rate limit of an Assignment's VF in the Target, in bits/s; 0: none.
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
