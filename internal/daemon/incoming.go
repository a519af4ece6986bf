package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/control/plan"
	"sluice/internal/daemon/runner"
	"sluice/internal/model"
)

// incoming keeps VFs for VMs that migrate in, from the time libvirt's hook asks for them until libvirt lists the VM, whose
// definition then has them. Meanwhile Snapshots show them as somebody else's. It makes no libvirt calls, as libvirt waits for the
// hook.
//
// A VF must have its MAC before the guest's driver looks for it. But from then on no other VM of this host reaches the guest,
// which runs elsewhere until its memory has been transferred. So the MAC is set when QEMU opens the VF, which it does at the very
// end.
type incoming struct {
	runner.Source
	actuator runner.Actuator
	opened   func(ctx context.Context, vf model.PCIAddress) error // waits until a process has the VF open
	now      func() time.Time
	log      *slog.Logger
	ctx      context.Context // ends with the daemon
	wg       sync.WaitGroup

	mu    sync.Mutex
	kept  map[model.VFID]keptVF
	waits map[model.VFID]context.CancelFunc // waits for QEMU to open VFs
}

type keptVF struct {
	plan.Kept
	name  string // of the VM
	until time.Time
}

func newIncoming(ctx context.Context, s runner.Source, a runner.Actuator, opened func(context.Context, model.PCIAddress) error,
	log *slog.Logger,
) *incoming {
	return &incoming{
		Source: s, actuator: a, opened: opened, now: time.Now, log: log, ctx: ctx,
		kept: map[model.VFID]keptVF{}, waits: map[model.VFID]context.CancelFunc{},
	}
}

// Snapshot implements runner.Source.
func (k *incoming) Snapshot(ctx context.Context) (*model.Snapshot, error) {
	snap, err := k.Source.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, kept := range k.kept {
		vf := snap.FindVF(id)
		if vf == nil || vf.Holder != "" || k.now().After(kept.until) {
			delete(k.kept, id)
			continue
		}
		kept.Free = vf.Owner == model.OwnerFree
		k.kept[id] = kept
		vf.Owner, vf.OwnerWhy = model.OwnerForeign, "kept for "+kept.name+", which migrates here"
	}
	for id, cancel := range k.waits {
		_, kept := k.kept[id]
		if vf := snap.FindVF(id); !kept && (vf == nil || vf.Holder == "") { // the VM did not come, or is gone again
			cancel()
			delete(k.waits, id)
		}
	}
	return snap, nil
}

// incomingCore is the part of loop.Core that chooses VFs.
type incomingCore interface {
	Incoming(vm model.Subject, nics []model.NIC, kept map[model.VFID]plan.Kept) ([]model.Step, error)
}

// ready chooses VFs for a VM's NICs and sets them up for QEMU to attach. If that fails for a VF, the loop clears the VF once it
// is no longer kept.
func (k *incoming) ready(ctx context.Context, call func(context.Context, func(time.Time)) error, core incomingCore, vm model.Subject,
	nics []model.NIC,
) ([]model.VFStep, error) {
	var steps []model.Step
	var refused error
	if err := call(ctx, func(time.Time) { steps, refused = k.choose(core, vm, nics) }); err != nil {
		return nil, err
	}
	if refused != nil {
		return nil, refused
	}
	var out []model.VFStep
	var late []model.Step // of one VF
	for _, s := range steps {
		if plan.AtArrival(s.Kind) {
			if late = append(late, s); s.Kind == model.StepSetMAC {
				out = append(out, s.VF)
				k.whenOpen(s.VF, late)
				late = nil
			}
			continue
		}
		if err := k.do(ctx, s); err != nil {
			k.release(steps)
			return nil, fmt.Errorf("set up VF %s for %s: %s: %w", s.VF.ID, vm.VMName, s.Kind, err)
		}
	}
	return out, nil
}

// whenOpen runs the remaining Steps for a VF when QEMU opens it.
func (k *incoming) whenOpen(vf model.VFStep, rest []model.Step) {
	ctx, cancel := context.WithCancel(k.ctx)
	k.mu.Lock()
	if before := k.waits[vf.ID]; before != nil {
		before()
	}
	k.waits[vf.ID] = cancel
	k.mu.Unlock()
	k.wg.Go(func() {
		defer cancel()
		if err := k.opened(ctx, vf.Address); ctx.Err() != nil {
			return
		} else if err != nil {
			k.log.Warn("set a VF's MAC early: cannot tell when QEMU opens the VF", "vf", vf.ID.String(), "error", err)
		}
		for _, s := range rest {
			if err := k.do(ctx, s); err != nil {
				k.log.Warn("cannot set up a VF for an incoming VM; trying again once the VM runs", "vf", vf.ID.String(), "step",
					string(s.Kind), "vm", s.Subject.VMName, "error", err)
			}
		}
	})
}

// close waits for the goroutines to end, once the daemon's context has ended.
func (k *incoming) close() { k.wg.Wait() }

func (k *incoming) do(ctx context.Context, s model.Step) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	return k.actuator.Do(ctx, s)
}

// choose runs in the loop, so that every later decision uses a Snapshot that shows the kept VFs. For VFs already kept for the VM,
// as when its migration is retried, the time starts again.
func (k *incoming) choose(core incomingCore, vm model.Subject, nics []model.NIC) ([]model.Step, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept := map[model.VFID]plan.Kept{}
	for id, one := range k.kept {
		kept[id] = one.Kept
	}
	steps, err := core.Incoming(vm, nics, kept)
	for _, s := range steps {
		if s.Kind != model.StepSetMAC {
			continue
		}
		k.kept[s.VF.ID] = keptVF{plan.Kept{VM: vm.VM, MAC: s.VF.MAC, Free: true}, vm.VMName, k.now().Add(loop.IncomingLimit)}
	}
	return steps, err
}

func (k *incoming) release(steps []model.Step) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range steps {
		delete(k.kept, s.VF.ID)
	}
}
