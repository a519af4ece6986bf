package actuate

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/host/libvirt"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// Limits is the enforcer of what VMs send through their VFs: the PF's rates for each VF. A limit is max_tx_rate, in whole
// Mbit/s; what is promised becomes min_tx_rate where the PF has that, and its NIC then shares the link by itself. Other paths and directions
// it cannot limit. Its limits have no lease: they stand until they are changed or the VF is given up.
type Limits struct{ a *Actuator }

// Limits is the enforcer beside the Actuator.
func (a *Actuator) Limits() *Limits { return &Limits{a} }

// Name is the attribute of `ip link set PF vf N` that it sets.
func (l *Limits) Name() string { return "max_tx_rate" }

// Can says whether the Limit can be had for the NIC as the Snapshot shows it. For one without VF that is
// said of the PFs that could give it one.
func (l *Limits) Can(snap *model.Snapshot, key model.LimitKey) model.Tri {
	vm := snap.FindVM(key.VM)
	if key.Path != model.PathVF || key.Dir != model.Tx || vm == nil {
		return model.No
	}
	nic := vm.FindNIC(key.NIC)
	if nic == nil {
		return model.No
	}
	if pf := snap.FindPF(nic.VF.PF); pf != nil {
		return pf.Caps.MaxTxRate
	}
	can := model.No
	for i := range snap.PFs {
		if pf := &snap.PFs[i]; pf.Managed && pf.Network == nic.Network && pf.Caps.MaxTxRate != model.No {
			can = model.Unknown // it depends on which one
		}
	}
	return can
}

// Apply makes the Limits true, or lifts those that ask for none, and returns what the driver shows then: a Guarantee that
// is not among that, the NIC does not give. One failure does not stop the others; the errors are joined.
// It looks once more who has the VFs: since the Snapshot they may have gone to others.
func (l *Limits) Apply(ctx context.Context, snap *model.Snapshot, batch []model.Limit) (now []model.Limit, err error) {
	all, err := l.a.domains.Domains(ctx)
	if err != nil {
		err = fmt.Errorf("see who has the VFs to limit: %w", err)
	}
	var errs []error
	for _, limit := range batch {
		failed := err
		var rates vf.Rates
		if failed == nil {
			rates, failed = l.apply(ctx, snap, all, limit)
		}
		if failed != nil {
			errs = append(errs, &model.LimitError{Key: limit.LimitKey, Err: failed})
			continue
		}
		now = append(now, model.Limit{LimitKey: limit.LimitKey, Rate: model.Rate{Bits: rates.Max}, Guarantee: rates.Min})
	}
	return now, errors.Join(errs...)
}

func (l *Limits) apply(ctx context.Context, snap *model.Snapshot, all []libvirt.Domain, limit model.Limit) (none vf.Rates, err error) {
	held, nic := snap.VFBehind(limit.VM, limit.NIC)
	if held == nil {
		return none, fmt.Errorf("limit NIC %s of VM %s: it has no VF", limit.NIC, limit.VM)
	}
	if d, h := holderOf(all, held.Address); h == nil || d.ID != limit.VM || h.Alias != model.VFAlias(nic.MAC) {
		return none, fmt.Errorf("limit VF %s: VM %s does not have it any more", held.ID, limit.VM)
	}
	want := vf.Rates{Max: limit.Tightest().Bits}
	if snap.FindPF(held.ID.PF).Caps.MinTxRate == model.Yes {
		want.Min = limit.Guarantee
	}
	return l.a.kernel.SetVFRates(ctx, held.ID.PF, held.ID.Index, want)
}
