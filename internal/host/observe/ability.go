package observe

import (
	"context"
	"sync"
	"time"

	"sluice/internal/host/guest"
	"sluice/internal/model"
)

// Abilities asks a guest whether limits can be set inside it. Its answer is untrusted.
type Abilities interface {
	Ability(ctx context.Context, vm model.VMID) guest.Ability
}

var _ Abilities = (*guest.Shaper)(nil)

const (
	abilityEvery  = 10 * time.Minute // how often a guest is asked again; it is also asked when its agent comes back
	abilityRetry  = time.Minute      // the interval after a question without an answer
	abilityAtMost = 4                // guests asked at the same time
)

// abilities caches whether limits can be set inside each guest. Guests are asked in the background so that none delays a Snapshot.
type abilities struct {
	ask   Abilities // nil: no guest is asked
	limit time.Duration
	ctx   context.Context // ends with the Source
	wg    sync.WaitGroup
	slots chan struct{}

	mu   sync.Mutex
	byVM map[model.VMID]*ability
}

type ability struct {
	guest.Ability
	started time.Time // the VM's, when it was asked
	at      time.Time // time of the answer; zero: none yet
	asking  bool
}

func newAbilities(ctx context.Context, ask Abilities, limit time.Duration) *abilities {
	return &abilities{ask: ask, limit: limit, ctx: ctx, slots: make(chan struct{}, abilityAtMost), byVM: map[model.VMID]*ability{}}
}

// fill sets InGuest of the Snapshot's VMs from the cached answers, starts a question for each VM without a recent one, and returns why
// some guests cannot be limited.
func (as *abilities) fill(snap *model.Snapshot) []model.Problem {
	if as.ask == nil {
		return nil
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	var out []model.Problem
	there := map[model.VMID]bool{}
	for i := range snap.VMs {
		vm := &snap.VMs[i]
		if vm.State != model.VMRunning || vm.Ready != model.Yes || !fallsBack(vm) {
			continue
		}
		there[vm.ID] = true
		a := as.of(vm, snap.Time)
		vm.InGuest = a.Limits
		if a.Why != "" {
			out = append(out, model.Problem{Subject: vm.Name, Text: "no limit can be set inside it: " + a.Why, Remedy: a.Remedy, Info: true})
		}
	}
	for id := range as.byVM {
		if !there[id] {
			delete(as.byVM, id)
		}
	}
	return out
}

// fallsBack reports whether a NIC of the VM can have a VF.
func fallsBack(vm *model.VM) bool {
	for i := range vm.NICs {
		if vm.NICs[i].Failover != model.FailoverNone {
			return true
		}
	}
	return false
}

// of returns what is known of a VM, and asks the guest in the background if that is missing or too old.
func (as *abilities) of(vm *model.VM, now time.Time) *ability {
	a := as.byVM[vm.ID]
	if a == nil || !a.started.Equal(vm.Started) {
		a = &ability{started: vm.Started}
		as.byVM[vm.ID] = a
	}
	every := abilityEvery
	if a.Limits == model.Unknown {
		every = abilityRetry
	}
	if !a.asking && (a.at.IsZero() || now.Sub(a.at) >= every) {
		a.asking = true
		as.wg.Go(func() { as.question(vm.ID, a) })
	}
	return a
}

func (as *abilities) question(id model.VMID, a *ability) {
	select {
	case as.slots <- struct{}{}:
		defer func() { <-as.slots }()
	case <-as.ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(as.ctx, as.limit)
	defer cancel()
	got := as.ask.Ability(ctx, id)
	as.mu.Lock()
	defer as.mu.Unlock()
	a.Ability, a.at, a.asking = got, time.Now(), false
}
