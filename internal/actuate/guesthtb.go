package actuate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/internal/guest"
	"sluice/internal/model"
)

// Shaper limits what guests send, inside them. What it may be told of a guest is untrusted.
type Shaper interface {
	Limit(ctx context.Context, vm model.VMID, mac model.MAC, now, contract model.Rate) error
	Lift(ctx context.Context, vm model.VMID, mac model.MAC) error
	Forget(there func(model.VMID) bool)
}

var _ Shaper = (*guest.Shaper)(nil)

// GuestHTB is the enforcer of what a guest sends on the path of its VF where the PF's driver cannot: the
// guest's agent limits the device above virtio NIC and VF, so that the limit stands on both.
//
// An agent that does not answer costs its own VM its limit, and others no more than guestPatience of one
// batch: its VM is left alone for guestRest. Apply may be called while another is under way.
type GuestHTB struct {
	guests Shaper
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	asked  map[model.VMID]time.Time // since when a guest is being asked
	silent map[model.VMID]time.Time // when it did not answer in time
	set    map[model.LimitKey]bool  // what was set here, or may have been
}

const (
	guestPatience = 2 * time.Second  // how long Apply waits for a guest
	guestLimit    = 5 * time.Second  // how long one may be asked in all
	guestRest     = 30 * time.Second // how long one that did not answer in time is left alone
)

// NewGuestHTB makes the enforcer. Close ends what it has under way.
func NewGuestHTB(s Shaper) *GuestHTB {
	g := &GuestHTB{guests: s, asked: map[model.VMID]time.Time{}, silent: map[model.VMID]time.Time{}, set: map[model.LimitKey]bool{}}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Close stops asking guests, and waits for that.
func (g *GuestHTB) Close() {
	g.cancel()
	g.wg.Wait()
}

// Name is what people and metrics call it.
func (g *GuestHTB) Name() string { return "guest-htb" }

// Slow says that one guest may take long while others do not.
func (g *GuestHTB) Slow() {}

// Can says whether the guest of the NIC can limit it, as the Snapshot shows it.
func (g *GuestHTB) Can(snap *model.Snapshot, key model.LimitKey) model.Tri {
	if key.Path != model.PathVF || key.Dir != model.Tx || key.VM == "" {
		return model.No
	}
	vm := snap.FindVM(key.VM)
	if vm == nil {
		return model.Unknown
	}
	if nic := vm.FindNIC(key.NIC); nic == nil || nic.Failover == model.FailoverNone || vm.Ready != model.Yes {
		return model.No
	}
	return vm.InGuest
}

// Apply makes the Limits true in their guests and renews their leases, all guests at the same time. One that
// fails does not keep the others; the errors are joined.
func (g *GuestHTB) Apply(ctx context.Context, snap *model.Snapshot, batch []model.Limit) (now []model.Limit, err error) {
	g.forget(snap)
	byVM := map[model.VMID][]model.Limit{}
	for _, l := range batch {
		byVM[l.VM] = append(byVM[l.VM], l)
	}
	ctx, cancel := context.WithTimeout(ctx, guestPatience)
	defer cancel()
	type result struct {
		limits []model.Limit
		errs   []error
	}
	results := make(chan result, len(byVM))
	for id, limits := range byVM {
		go func() {
			errs := g.ask(ctx, snap, id, limits)
			results <- result{limits, errs}
		}()
	}
	var all []error
	for range byVM {
		r := <-results
		for i, l := range r.limits {
			if r.errs[i] != nil {
				all = append(all, &model.LimitError{Key: l.LimitKey, Err: r.errs[i]})
				continue
			}
			l.Rate = l.Tightest()
			now = append(now, l)
		}
	}
	return now, errors.Join(all...)
}

// ask sets a VM's limits and returns what became of each. When ctx ends it does not wait for the guest any longer.
func (g *GuestHTB) ask(ctx context.Context, snap *model.Snapshot, id model.VMID, limits []model.Limit) []error {
	errs := make([]error, len(limits))
	if err := g.enter(id); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	done := make(chan []error, 1)
	g.wg.Go(func() {
		work, cancel := context.WithTimeout(g.ctx, guestLimit)
		defer cancel()
		made := make([]error, len(limits))
		for i := range limits {
			made[i] = g.one(work, snap, &limits[i])
		}
		g.leave(id, work.Err() != nil)
		done <- made
	})
	select {
	case errs = <-done:
	case <-ctx.Done():
		for i := range errs {
			errs[i] = fmt.Errorf("limit VM %s in its guest: the guest agent has not answered in time: %w", id, model.ErrGuest)
		}
	}
	return errs
}

// enter notes that a guest is being asked, which one question at a time may do.
func (g *GuestHTB) enter(id model.VMID) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if since, busy := g.asked[id]; busy {
		return fmt.Errorf("limit VM %s in its guest: its guest agent has been asked %s ago and has not answered yet: %w", id, time.Since(since).Round(time.Millisecond), model.ErrGuest)
	}
	if since, silent := g.silent[id]; silent && time.Since(since) < guestRest {
		return fmt.Errorf("limit VM %s in its guest: its guest agent did not answer %s ago; it is asked again after %s: %w", id, time.Since(since).Round(time.Second), guestRest, model.ErrGuest)
	}
	g.asked[id] = time.Now()
	return nil
}

func (g *GuestHTB) leave(id model.VMID, late bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.asked, id)
	delete(g.silent, id)
	if late {
		g.silent[id] = time.Now()
	}
}

// one makes one Limit true.
func (g *GuestHTB) one(ctx context.Context, snap *model.Snapshot, l *model.Limit) error {
	vm := snap.FindVM(l.VM)
	if vm == nil {
		return g.gone(l)
	}
	nic := vm.FindNIC(l.NIC)
	if nic == nil {
		return g.gone(l)
	}
	if !g.note(l) { // nothing of ours in this run: an earlier one may have left a contract
		return g.guests.Lift(ctx, l.VM, nic.MAC)
	}
	return g.guests.Limit(ctx, l.VM, nic.MAC, l.Tightest(), l.Contract)
}

// gone is what becomes of a Limit whose NIC is not there any more: it went with it.
func (g *GuestHTB) gone(l *model.Limit) error {
	if lifts(l) {
		return nil
	}
	return fmt.Errorf("limit NIC %s of VM %s in its guest: %w", l.NIC, l.VM, model.ErrGone)
}

// note remembers that a limit is set, and says whether one is, or was in this run.
func (g *GuestHTB) note(l *model.Limit) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.set[l.LimitKey] = g.set[l.LimitKey] || !lifts(l)
	return g.set[l.LimitKey]
}

// forget drops what is known of VMs that are not there any more.
func (g *GuestHTB) forget(snap *model.Snapshot) {
	there := func(id model.VMID) bool { return snap.FindVM(id) != nil }
	g.guests.Forget(there)
	g.mu.Lock()
	defer g.mu.Unlock()
	for id := range g.silent {
		if !there(id) {
			delete(g.silent, id)
		}
	}
	for key := range g.set {
		if !there(key.VM) {
			delete(g.set, key)
		}
	}
}
