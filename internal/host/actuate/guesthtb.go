package actuate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/host/guest"
	"sluice/internal/model"
)

// Shaper limits what guests send, inside them. A guest's answers are untrusted.
type Shaper interface {
	Limit(ctx context.Context, vm model.VMID, mac model.MAC, now, contract model.Rate) error
	Lift(ctx context.Context, vm model.VMID, mac model.MAC) error
	InForce(ctx context.Context, vm model.VMID, mac model.MAC) (model.Rate, error)
	Forget(there func(model.VMID) bool)
}

var _ Shaper = (*guest.Shaper)(nil)

// GuestHTB enforces limits on what a guest sends through its VF when the PF's driver cannot: the guest's agent limits the device above
// virtio NIC and VF, so the limit applies to both. It is Slow: the duration of a batch depends on its guests.
type GuestHTB struct {
	guests Shaper

	mu  sync.Mutex
	set map[model.LimitKey]bool // limits that were set in this run, or may have been
}

// guestLimit bounds the time to set one NIC's limit: in a busy guest, starting the processes for the first limit takes long. Only the VF of
// that NIC waits for it.
const guestLimit = 30 * time.Second

// NewGuestHTB makes the enforcer.
func NewGuestHTB(s Shaper) *GuestHTB { return &GuestHTB{guests: s, set: map[model.LimitKey]bool{}} }

// Slow implements runner.Slow: each VM's Limits are applied separately.
func (g *GuestHTB) Slow() {}

// Name returns the name shown to users and in metrics.
func (g *GuestHTB) Name() string { return "guest-htb" }

// Can reports whether the guest of the NIC can limit it, according to the Snapshot.
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

// Apply sets the Limits in their guests and renews their leases, one after the other. A failure does not stop the rest; the errors are
// joined.
func (g *GuestHTB) Apply(ctx context.Context, snap *model.Snapshot, batch []model.Limit) (now []model.Limit, err error) {
	g.forget(snap)
	var r results
	for _, l := range batch {
		one, cancel := context.WithTimeout(ctx, guestLimit)
		err := g.one(one, snap, &l)
		cancel()
		l.Rate = l.Tightest()
		r.add(l, err)
	}
	return r.now, errors.Join(r.errs...)
}

// askAtOnce is how many guests InPlace asks concurrently.
const askAtOnce = 4

// InPlace implements runner.Persistent: it returns the contracts that an earlier run left in guests. A guest that cannot be asked is
// skipped: most have no limit of Sluice's, and some do not even allow the query.
func (g *GuestHTB) InPlace(ctx context.Context, snap *model.Snapshot) ([]model.Limit, error) {
	var mu sync.Mutex
	var out []model.Limit
	var work errgroup.Group
	work.SetLimit(askAtOnce)
	for vm, nic := range snap.NICs() {
		key := model.LimitKey{VM: vm.ID, NIC: nic.Alias, Path: model.PathVF, Dir: model.Tx}
		if vm.State != model.VMRunning || g.Can(snap, key) == model.No {
			continue
		}
		work.Go(func() error {
			one, cancel := context.WithTimeout(ctx, guestLimit)
			defer cancel()
			if r, err := g.guests.InForce(one, vm.ID, nic.MAC); err == nil && !r.IsZero() {
				mu.Lock()
				defer mu.Unlock()
				out = append(out, model.Limit{LimitKey: key, Contract: r})
			}
			return nil
		})
	}
	_ = work.Wait() // none of them fails
	slices.SortFunc(out, func(a, b model.Limit) int { return model.CompareKeys(a.LimitKey, b.LimitKey) })
	return out, nil
}

// one sets one Limit.
func (g *GuestHTB) one(ctx context.Context, snap *model.Snapshot, l *model.Limit) error {
	vm := snap.FindVM(l.VM)
	if vm == nil {
		return g.gone(l)
	}
	nic := vm.FindNIC(l.NIC)
	if nic == nil {
		return g.gone(l)
	}
	if !g.note(l) { // no limit set in this run, but an earlier run may have left a contract
		return g.guests.Lift(ctx, l.VM, nic.MAC)
	}
	return g.guests.Limit(ctx, l.VM, nic.MAC, l.Tightest(), l.Contract)
}

// gone returns the result for a Limit whose NIC no longer exists: lifting it succeeds, because the limit went with the NIC.
func (g *GuestHTB) gone(l *model.Limit) error {
	if lifts(l) {
		return nil
	}
	return fmt.Errorf("limit NIC %s of VM %s in its guest: %w", l.NIC, l.VM, model.ErrGone)
}

// note records that a limit is being set, and reports whether one is, or was in this run.
func (g *GuestHTB) note(l *model.Limit) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.set[l.LimitKey] = g.set[l.LimitKey] || !lifts(l)
	return g.set[l.LimitKey]
}

// forget drops the state of VMs that no longer exist.
func (g *GuestHTB) forget(snap *model.Snapshot) {
	there := func(id model.VMID) bool { return snap.FindVM(id) != nil }
	g.guests.Forget(there)
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.set, func(key model.LimitKey, _ bool) bool { return !there(key.VM) })
}
