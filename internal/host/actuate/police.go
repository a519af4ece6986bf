package actuate

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/host/kernel"
	"sluice/internal/host/tap"
	"sluice/internal/model"
)

// Taps limits the traffic of taps.
type Taps interface {
	UpdateTap(ctx context.Context, tap string, edit func(*tap.Policy)) (tap.Policy, error)
	TapPolicies(ctx context.Context) ([]tap.Policy, error)
	RemoveTap(ctx context.Context, tap string) error
	CheckTaps() error
}

var _ Taps = (*kernel.Host)(nil)

// Police enforces limits on the virtio path in both directions, in bits and packets: a program on the tap drops the excess. A rate ends
// with its lease; the contract stays even if this process ends.
type Police struct {
	taps   Taps
	unable error
}

// NewPolice checks once whether the kernel can limit taps.
func NewPolice(taps Taps) *Police {
	p := &Police{taps: taps}
	if err := taps.CheckTaps(); errors.Is(err, model.ErrPermanent) {
		p.unable = err
	}
	return p
}

// Unable returns why no tap of this host can be limited, nil if they can.
func (p *Police) Unable() error { return p.unable }

// Name returns the name that the kernel's tools use.
func (p *Police) Name() string { return "police" }

// Can reports whether the Limit can be enforced for the NIC, according to the Snapshot.
func (p *Police) Can(snap *model.Snapshot, key model.LimitKey) model.Tri {
	if key.Path != model.PathVirtio || key.VM == "" || p.unable != nil {
		return model.No
	}
	if nic := tapOf(snap, key); nic != nil {
		return model.Yes
	}
	if vm := snap.FindVM(key.VM); vm != nil {
		if nic := vm.FindNIC(key.NIC); nic != nil && nic.VirtualPF != "" {
			return model.No // it is on a vDPA device, and never has a tap
		}
	}
	return model.Unknown
}

// tapOf returns the NIC of a Limit, nil if it does not exist or has no tap.
func tapOf(snap *model.Snapshot, key model.LimitKey) *model.NIC {
	vm := snap.FindVM(key.VM)
	if vm == nil {
		return nil
	}
	nic := vm.FindNIC(key.NIC)
	if nic == nil || nic.Tap == "" {
		return nil
	}
	return nic
}

// Apply sets the Limits and renews the leases of their taps. It returns what the kernel then has. A failure does not stop the rest; the
// errors are joined.
func (p *Police) Apply(ctx context.Context, snap *model.Snapshot, batch []model.Limit) (now []model.Limit, err error) {
	var r results
	for _, limit := range batch {
		rates, err := p.apply(ctx, tapOf(snap, limit.LimitKey), &limit)
		limit.Rate, limit.Contract = rates.Now, rates.Contract
		r.add(limit, err)
	}
	return r.now, errors.Join(r.errs...)
}

func (p *Police) apply(ctx context.Context, nic *model.NIC, limit *model.Limit) (tap.PathRates, error) {
	switch {
	case p.unable != nil:
		return tap.PathRates{}, p.unable
	case limit.Path != model.PathVirtio || limit.VM == "":
		return tap.PathRates{}, fmt.Errorf("limit the %s path of %q: only frames through the tap of a VM can be dropped there", limit.Path,
			limit.VM)
	case nic == nil && lifts(limit):
		return tap.PathRates{}, nil // the limit went with its tap
	case nic == nil:
		return tap.PathRates{}, fmt.Errorf("limit NIC %s of VM %s: it has no tap: %w", limit.NIC, limit.VM, model.ErrGone)
	}
	rates := func(t *tap.Policy) *tap.PathRates {
		if limit.Dir == model.Rx {
			return &t.Rx
		}
		return &t.Tx
	}
	now, err := updateTap(ctx, p.taps, nic, limit.VM, func(t *tap.Policy) {
		*rates(t) = tap.PathRates{Now: limit.Rate, Contract: limit.Contract}
		if limit.Dir == model.Tx { // policed traffic goes through no tree
			t.Shaper, t.Class = 0, 0
		}
	})
	switch {
	case errors.Is(err, model.ErrGone) && lifts(limit):
		return tap.PathRates{}, nil
	case err != nil:
		return tap.PathRates{}, err
	}
	return *rates(&now), nil
}

// updateTap changes the policy of a VM's tap, unless the tap belongs to another VM by now.
func updateTap(ctx context.Context, taps Taps, nic *model.NIC, vm model.VMID, edit func(*tap.Policy)) (tap.Policy, error) {
	now, err := taps.UpdateTap(ctx, nic.Tap, edit)
	if err == nil && now.Index != 0 && nic.TapIndex != 0 && now.Index != nic.TapIndex {
		// Since the Snapshot the VM has stopped, and another one's tap has that name.
		err = fmt.Errorf("limit tap %s: VM %s no longer has it: %w", nic.Tap, vm, model.ErrGone)
		return now, errors.Join(err, taps.RemoveTap(ctx, nic.Tap))
	}
	return now, err
}

// lifts reports whether nothing is limited: a policer ignores guarantees.
func lifts(l *model.Limit) bool { return l.IsZero() && l.Contract.IsZero() }

// InPlace returns the limits in force on the taps of the Snapshot, whichever process set them, including taps directed to a tree. It
// changes nothing.
func (p *Police) InPlace(ctx context.Context, snap *model.Snapshot) (found []model.Limit, err error) {
	if p.unable != nil {
		return nil, nil
	}
	policies, err := p.taps.TapPolicies(ctx)
	if err != nil {
		return nil, err
	}
	whose := owners(snap)
	for i := range policies {
		t := &policies[i]
		id, there := whose[t.Tap]
		if !there {
			continue
		}
		for dir, rates := range map[model.Direction]tap.PathRates{model.Tx: t.Tx, model.Rx: t.Rx} {
			l := model.Limit{
				LimitKey: model.LimitKey{VM: id.VM, NIC: id.NIC, Path: model.PathVirtio, Dir: dir}, Rate: rates.Now,
				Contract: rates.Contract,
			}
			if dir == model.Tx && t.Shaper != 0 {
				l.Guarantee = 1 // it has a guarantee, or others in its tree have
			}
			if !l.Lifts() {
				found = append(found, l)
			}
		}
	}
	return found, nil
}

// owners maps taps to the NICs of the Snapshot.
func owners(snap *model.Snapshot) map[string]model.NICID {
	whose := map[string]model.NICID{}
	for vm, nic := range snap.NICs() {
		whose[nic.Tap] = model.NICID{VM: vm.ID, NIC: nic.Alias}
	}
	return whose
}

// Sweep removes policies from taps that belong to no VM of the Snapshot, representors excepted.
func (p *Police) Sweep(ctx context.Context, snap *model.Snapshot) error {
	if p.unable != nil {
		return nil
	}
	policies, err := p.taps.TapPolicies(ctx)
	if err != nil {
		return err
	}
	whose := owners(snap)
	for i := range snap.PFs {
		for k := range snap.PFs[i].VFs {
			whose[snap.PFs[i].VFs[k].Port] = model.NICID{} // at a representor the limit is the VF's, as its rate is
		}
	}
	var errs []error
	for i := range policies {
		if _, there := whose[policies[i].Tap]; !there {
			errs = append(errs, p.taps.RemoveTap(ctx, policies[i].Tap))
		}
	}
	return errors.Join(errs...)
}
