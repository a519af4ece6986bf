package sim

import (
	"context"
	"fmt"

	"sluice/internal/model"
)

// limiter is the enforcer that limits what a VM sends through its VF.
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
	for i := range snap.PFs { // depends on which VF it gets
		if pf := &snap.PFs[i]; pf.Network == nic.Network && pf.Caps.MaxTxRate != model.No {
			can = model.Unknown
		}
	}
	return can
}

// Apply implements loop.Enforcer. Like the real enforcer it acts on the present holders of VFs.
func (l limiter) Apply(_ context.Context, _ *model.Snapshot, batch []model.Limit) (now []model.Limit, err error) {
	return l.w.applyEach(batch, l.apply)
}

func (l limiter) apply(limit *model.Limit) error {
	for n := range l.w.nics() {
		if vf := l.w.vf(n.hasVF); n.VM.ID == limit.VM && n.Alias == limit.NIC && vf != nil && !n.foreign {
			vf.MaxTxRate, vf.MaxPackets = model.WholeMbit(limit.Tightest().Bits), 0
			if l.w.pf(vf.ID.PF).Caps.VFPackets == model.Yes {
				vf.MaxPackets = limit.Tightest().Packets
			}
			limit.Rate = model.Rate{Bits: vf.MaxTxRate, Packets: vf.MaxPackets}
			return nil
		}
	}
	return fmt.Errorf("NIC %s of VM %s has no VF to limit", limit.NIC, limit.VM)
}
