package sim

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/control/loop"
	"sluice/internal/model"
)

// Limiter is the host's loop.Enforcer: it limits what a VM sends through its VF.
func (w *World) Limiter() loop.Enforcer { return limiter{w} }

type limiter struct{ w *World }

// Name implements loop.Enforcer.
func (l limiter) Name() string { return "max_tx_rate" }

// Can implements loop.Enforcer.
func (l limiter) Can(snap *model.Snapshot, key model.LimitKey) model.Tri {
	if key.Path != model.PathVF || key.Dir != model.Tx {
		return model.No
	}
	vm := snap.FindVM(key.VM)
	if vm == nil || vm.FindNIC(key.NIC) == nil {
		return model.No
	}
	nic, can := vm.FindNIC(key.NIC), model.No
	if pf := snap.FindPF(nic.VF.PF); pf != nil {
		return pf.Caps.MaxTxRate
	}
	for i := range snap.PFs { // it depends on which VF it gets
		if pf := &snap.PFs[i]; pf.Network == nic.Network && pf.Caps.MaxTxRate != model.No {
			can = model.Unknown
		}
	}
	return can
}

// Apply implements loop.Enforcer. Like the real one it acts on who has which VF now.
func (l limiter) Apply(_ context.Context, _ *model.Snapshot, batch []model.Limit) (now []model.Limit, err error) {
	var errs []error
	for _, limit := range batch {
		if err := l.apply(limit); err != nil {
			errs = append(errs, &model.LimitError{Key: limit.LimitKey, Err: err})
			continue
		}
		limit.Rate = model.Rate{Bits: model.WholeMbit(limit.Tightest().Bits)}
		now = append(now, limit)
	}
	return now, errors.Join(errs...)
}

func (l limiter) apply(limit model.Limit) error {
	if l.w.FailLimit != nil {
		if err := l.w.FailLimit(limit); err != nil {
			return err
		}
	}
	for n := range l.w.nics() {
		if vf := l.w.vf(n.hasVF); n.VM.ID == limit.VM && n.Alias == limit.NIC && vf != nil && !n.foreign {
			vf.MaxTxRate = model.WholeMbit(limit.Tightest().Bits)
			return nil
		}
	}
	return fmt.Errorf("NIC %s of VM %s has no VF to limit", limit.NIC, limit.VM)
}
