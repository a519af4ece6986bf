package actuate

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/model"
)

// Limits applies Limits with what the host has for each path: max_tx_rate for what a
// VM sends through its VF. Other paths and directions it cannot limit.
type Limits struct{ a *Actuator }

// Limits is the enforcer beside the Actuator.
func (a *Actuator) Limits() *Limits { return &Limits{a} }

// Name is the attribute of `ip link set PF vf N` that it sets.
func (l *Limits) Name() string { return "max_tx_rate" }

// Can says whether the Limit can be had for the NIC as the Snapshot shows it.
func (l *Limits) Can(snap *model.Snapshot, key model.LimitKey) model.Tri {
	if key.Path != model.PathVF || key.Dir != model.Tx {
		return model.No
	}
	vf, _ := snap.VFBehind(key.VM, key.NIC)
	if vf == nil {
		return model.Unknown
	}
	return snap.FindPF(vf.ID.PF).Caps.MaxTxRate
}

// Apply makes the Limits true, or lifts those of 0 bits/s, and returns what is true now.
// One that fails does not keep the others; the errors are joined.
func (l *Limits) Apply(ctx context.Context, snap *model.Snapshot, batch []model.Limit) (now []model.Limit, err error) {
	var errs []error
	for _, limit := range batch {
		if err := l.apply(ctx, snap, limit); err != nil {
			errs = append(errs, &model.LimitError{Key: limit.LimitKey, Err: err})
			continue
		}
		limit.Rate = model.Rate{Bits: model.WholeMbit(limit.Tightest().Bits)}
		now = append(now, limit)
	}
	return now, errors.Join(errs...)
}

// apply looks once more who has the VF: since the Snapshot it may have gone to another.
func (l *Limits) apply(ctx context.Context, snap *model.Snapshot, limit model.Limit) error {
	vf, nic := snap.VFBehind(limit.VM, limit.NIC)
	if vf == nil {
		return fmt.Errorf("limit NIC %s of VM %s: it has no VF", limit.NIC, limit.VM)
	}
	d, h, err := l.a.holder(ctx, vf.Address)
	switch {
	case err != nil:
		return err
	case h == nil || d.ID != limit.VM || h.Alias != model.VFAlias(nic.MAC):
		return fmt.Errorf("limit VF %s: VM %s does not have it any more", vf.ID, limit.VM)
	}
	return l.a.kernel.SetVFRate(ctx, vf.ID.PF, vf.ID.Index, limit.Tightest().Bits)
}
