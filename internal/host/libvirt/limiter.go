package libvirt

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"time"

	"sluice/internal/model"
)

// maxPerVM bounds the concurrent calls on one domain through one limiter.
const maxPerVM = 4

// limiter makes calls that are abandoned when their context ends. A domain with an abandoned call gets no further ones until that call
// returns. Calls that do not concern a single domain use the empty VMID.
type limiter struct {
	mu  sync.Mutex
	vms map[model.VMID]*inFlight
}

// inFlight counts a domain's calls, and how many of them have been abandoned.
type inFlight struct {
	calls, abandoned int
	op               string    // the first call that was abandoned
	since            time.Time // when it was
}

// stuck describes a domain with an abandoned call.
type stuck struct {
	vm    model.VMID
	op    string
	since time.Time
}

func (l *limiter) enter(vm model.VMID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.vms[vm]
	if u == nil {
		u = &inFlight{}
		if l.vms == nil {
			l.vms = map[model.VMID]*inFlight{}
		}
		l.vms[vm] = u
	}
	if u.abandoned > 0 {
		return fmt.Errorf("%w: %q has been under way for %s", ErrStuck, u.op, time.Since(u.since).Round(time.Millisecond))
	}
	if vm != "" && u.calls >= maxPerVM {
		return fmt.Errorf("%w: %d calls are under way", ErrStuck, u.calls)
	}
	u.calls++
	return nil
}

func (l *limiter) exit(vm model.VMID, abandoned bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.vms[vm]
	u.calls--
	if abandoned {
		u.abandoned--
	}
	if u.calls == 0 {
		delete(l.vms, vm)
	}
}

func (l *limiter) abandon(vm model.VMID, op string) {
	u := l.vms[vm]
	if u.abandoned++; u.abandoned == 1 {
		u.op, u.since = op, time.Now()
	}
}

// busy reports whether any call on the domain is in flight.
func (l *limiter) busy(vm model.VMID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.vms[vm] != nil
}

// stuck returns the domains that have an abandoned call.
func (l *limiter) stuck() []stuck {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []stuck
	for vm, u := range l.vms {
		if u.abandoned > 0 {
			out = append(out, stuck{vm, u.op, u.since})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].vm < out[j].vm })
	return out
}

// attempt is one call: its result, and whether its caller abandoned it.
type attempt[T any] struct {
	mu        sync.Mutex
	abandoned bool
	done      chan struct{}
	val       T
	err       error
}

// call runs fn, for which the limiter has been entered, on its own goroutine and waits for it until ctx ends. fn must free what it
// allocates itself, because its result may be dropped.
func call[T any](ctx context.Context, l *limiter, vm model.VMID, op string, fn func() (T, error)) (T, error) {
	f := &attempt[T]{done: make(chan struct{})}
	go f.run(l, vm, fn)
	select {
	case <-f.done:
		return f.val, f.err
	case <-ctx.Done():
	}
	if f.abandon(l, vm, op) {
		var zero T
		return zero, fmt.Errorf("libvirt did not answer in time: %w", ctx.Err())
	}
	return f.val, f.err
}

func (f *attempt[T]) run(l *limiter, vm model.VMID, fn func() (T, error)) {
	val, err := fn()
	f.mu.Lock()
	defer f.mu.Unlock()
	l.exit(vm, f.abandoned)
	f.val, f.err = val, err
	close(f.done)
}

// abandon gives up waiting. It returns false if the call has returned in the meantime.
func (f *attempt[T]) abandon(l *limiter, vm model.VMID, op string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.done:
		return false
	default:
	}
	f.abandoned = true
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abandon(vm, op)
	return true
}
