package actuate

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/host/libvirt"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// Limits enforces limits on what VMs send through their VFs, with the PF's rates for each VF: a limit is max_tx_rate, in whole Mbit/s; a
// guarantee becomes min_tx_rate if the PF supports it, and the NIC's hardware then divides the link. It cannot limit other paths and
// directions. Its limits have no lease: they stay until they are changed or the VF is released.
type Limits struct{ a *Actuator }

// Limits returns the enforcer that uses the Actuator's interfaces.
func (a *Actuator) Limits() *Limits { return &Limits{a} }

// Name returns the attribute of `ip link set PF vf N` that it sets.
func (l *Limits) Name() string { return "max_tx_rate" }

// Can reports whether the Limit can be enforced for the NIC, according to the Snapshot. For a NIC without VF, the answer is about the PFs
// that could give it one.
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
			can = model.Unknown // it depends on the PF
		}
	}
	return can
}

// Apply sets the Limits, or lifts those that ask for no limit, and returns what the driver then shows: the NIC does not provide a Guarantee
// that is missing there. A failure does not stop the rest; the errors are joined. Apply checks again who holds the VFs: since the Snapshot
// others may have taken them.
func (l *Limits) Apply(ctx context.Context, snap *model.Snapshot, batch []model.Limit) (now []model.Limit, err error) {
	all, err := l.a.domains.Domains(ctx)
	if err != nil {
		err = fmt.Errorf("find the holders of the VFs to limit: %w", err)
	}
	var r results
	for _, limit := range batch {
		failed := err
		var rates vf.Rates
		if failed == nil {
			rates, failed = l.apply(ctx, snap, all, limit)
		}
		r.add(model.Limit{LimitKey: limit.LimitKey, Rate: model.Rate{Bits: rates.Max}, Guarantee: rates.Min}, failed)
	}
	return r.now, errors.Join(r.errs...)
}

// results collects which Limits of a batch are in force, and why the others are not.
type results struct {
	now  []model.Limit
	errs []error
}

// add adds a Limit, or its failure.
func (r *results) add(l model.Limit, failed error) {
	if failed != nil {
		r.errs = append(r.errs, &model.LimitError{Key: l.LimitKey, Err: failed})
		return
	}
	r.now = append(r.now, l)
}

func (l *Limits) apply(ctx context.Context, snap *model.Snapshot, all []libvirt.Domain, limit model.Limit) (none vf.Rates, err error) {
	held, nic := snap.VFBehind(limit.VM, limit.NIC)
	if held == nil {
		return none, fmt.Errorf("limit NIC %s of VM %s: it has no VF", limit.NIC, limit.VM)
	}
	if d, h := holderOf(all, held.Address); h == nil || d.ID != limit.VM || h.Alias != model.PassthroughAlias(nic.MAC) {
		return none, fmt.Errorf("limit VF %s: VM %s no longer has it", held.ID, limit.VM)
	}
	want := vf.Rates{Max: limit.Tightest().Bits}
	if snap.FindPF(held.ID.PF).Caps.MinTxRate == model.Yes {
		want.Min = limit.Guarantee
	}
	return l.a.kernel.SetVFRates(ctx, held.ID.PF, held.ID.Index, want)
}
