package actuate

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/host/libvirt"
	"sluice/internal/host/tap"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// Limits enforces limits on what VMs send through their VFs, with the PF's rates for each VF: a limit is max_tx_rate, in whole Mbit/s; a
// guarantee becomes min_tx_rate if the PF supports it, and the NIC's hardware then divides the link. Packets/s are policed where frames of
// the VF enter the host, at its representor, if that holds (Caps.VFPackets). It cannot limit other paths and directions. Its limits have
// no lease: they stay until they are changed or the VF is released.
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
		now := model.Limit{LimitKey: limit.LimitKey}
		if failed == nil {
			now.Rate, now.Guarantee, failed = l.apply(ctx, snap, all, limit)
		}
		r.add(now, failed)
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

// apply returns the rate and the guarantee that are then in force.
func (l *Limits) apply(ctx context.Context, snap *model.Snapshot, all []libvirt.Domain, limit model.Limit) (
	now model.Rate, least uint64, err error,
) {
	held, nic := snap.VFBehind(limit.VM, limit.NIC)
	if held == nil {
		return now, 0, fmt.Errorf("limit NIC %s of VM %s: it has no VF", limit.NIC, limit.VM)
	}
	if d, h := holderOf(all, held.Address); h == nil || d.ID != limit.VM || h.Alias != model.PassthroughAlias(nic.MAC) {
		return now, 0, fmt.Errorf("limit VF %s: VM %s no longer has it", held.ID, limit.VM)
	}
	want, caps := vf.Rates{Max: limit.Tightest().Bits}, snap.FindPF(held.ID.PF).Caps
	if caps.MinTxRate == model.Yes {
		want.Min = limit.Guarantee
	}
	packets := limit.Tightest().Packets
	if caps.VFPackets != model.Yes {
		packets = 0
	}
	rates, err := l.a.kernel.SetVFRates(ctx, held.ID.PF, held.ID.Index, want)
	now.Bits = rates.Max
	if packets > 0 || held.MaxPackets > 0 {
		var failed error
		now.Packets, failed = l.a.police(ctx, held.Port, packets)
		err = errors.Join(err, failed)
	}
	return now, rates.Min, err
}

// police limits what a VF sends to that many packets/s (0: not limited) where it enters the host, and returns what is then in force. The
// program at the representor goes before whatever forwards the frames: bridge, Open vSwitch or filters of tc. It counts each segment of a
// frame that the kernel has merged, which the action police of tc would count as one packet, and no restart of ovs-vswitchd removes it.
func (a *Actuator) police(ctx context.Context, representor string, packets uint64) (uint64, error) {
	if representor == "" {
		return 0, fmt.Errorf("%w: limit packets/s of a VF: it has no representor in this network namespace", model.ErrPermanent)
	}
	now, err := a.kernel.UpdateTap(ctx, representor, func(t *tap.Policy) {
		t.Tx = tap.PathRates{Contract: model.Rate{Packets: packets}}
	})
	switch {
	case packets == 0 && errors.Is(err, model.ErrGone):
		return 0, nil
	case err == nil && now.Tx.Contract.Packets != packets:
		err = fmt.Errorf("limit packets/s at %s: %d are in force instead of %d", representor, now.Tx.Contract.Packets, packets)
	}
	return now.Tx.Contract.Packets, err
}
