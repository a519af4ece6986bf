package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sluice/internal/loop"
	"sluice/internal/model"
)

// incoming keeps VFs for VMs that migrate in, from when libvirt's hook asks for them until libvirt
// lists the VM, whose definition has them by then. Snapshots show them as somebody else's meanwhile.
// It asks nothing of libvirt, which waits for the hook.
type incoming struct {
	loop.Source
	actuator loop.Actuator
	now      func() time.Time

	mu   sync.Mutex
	kept map[model.VFID]keptVF
}

type keptVF struct {
	vm    string
	until time.Time
}

func newIncoming(s loop.Source, a loop.Actuator) *incoming {
	return &incoming{Source: s, actuator: a, now: time.Now, kept: map[model.VFID]keptVF{}}
}

// Snapshot implements loop.Source.
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
		vf.Owner, vf.OwnerWhy = model.OwnerForeign, "kept for "+kept.vm+", which migrates here"
	}
	return snap, nil
}

// core is the part of loop.Core that chooses VFs.
type incomingCore interface {
	Incoming(vm model.Subject, nics []model.NIC, kept func(model.VFID) bool) ([]model.Step, error)
}

// ready chooses VFs for a VM's NICs and sets them up, MAC and all, for QEMU to attach. What a VF of which that failed carries is
// cleared by the loop when nobody waits for it any more.
func (k *incoming) ready(ctx context.Context, call func(context.Context, func(time.Time)) error, core incomingCore, vm model.Subject, nics []model.NIC) ([]model.VFStep, error) {
	var steps []model.Step
	var refused error
	if err := call(ctx, func(time.Time) { steps, refused = k.choose(core, vm, nics) }); err != nil {
		return nil, err
	}
	if refused != nil {
		return nil, refused
	}
	var out []model.VFStep
	for _, s := range steps {
		if err := k.do(ctx, s); err != nil {
			k.release(steps)
			return nil, fmt.Errorf("set up VF %s for %s: %s: %w", s.VF.ID, vm.VMName, s.Kind, err)
		}
		if s.Kind == model.StepSetMAC {
			out = append(out, s.VF)
		}
	}
	return out, nil
}

func (k *incoming) do(ctx context.Context, s model.Step) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	return k.actuator.Do(ctx, s)
}

// choose runs in the loop, so that no Snapshot that does not show what is kept is decided on after it.
func (k *incoming) choose(core incomingCore, vm model.Subject, nics []model.NIC) ([]model.Step, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	steps, err := core.Incoming(vm, nics, func(id model.VFID) bool { _, kept := k.kept[id]; return kept })
	for _, s := range steps {
		k.kept[s.VF.ID] = keptVF{vm.VMName, k.now().Add(loop.IncomingLimit)}
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
