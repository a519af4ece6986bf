package sysif

import (
	"context"
	"sync"
)

// Locks serializes calls that work on the same thing, identified by name.
type Locks struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed on release
}

// NewLocks returns Locks with nothing locked.
func NewLocks() *Locks { return &Locks{held: map[string]chan struct{}{}} }

// Acquire locks name, or returns the context's error if ctx ends first.
func (l *Locks) Acquire(ctx context.Context, name string) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		wait := l.try(name)
		if wait == nil {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
}

// try locks name and returns nil, or returns a channel that is closed when the holder releases it.
func (l *Locks) try(name string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait, busy := l.held[name]; busy {
		return wait
	}
	l.held[name] = make(chan struct{})
	return nil
}

// Release unlocks name.
func (l *Locks) Release(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.held[name])
	delete(l.held, name)
}

// Exclusive runs fn while holding name, and returns when ctx ends even if fn has not: fn then continues holding name until it
// returns, and its result is lost.
func (l *Locks) Exclusive(ctx context.Context, name string, fn func() error) error {
	if err := l.Acquire(ctx, name); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		err := fn()
		l.Release(name)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
