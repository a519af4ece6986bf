package sysif

import (
	"context"
	"sync"
)

// Locks keeps two calls from working on the same thing at once, by its name.
type Locks struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed on release
}

// NewLocks has nothing locked.
func NewLocks() *Locks { return &Locks{held: map[string]chan struct{}{}} }

// Acquire waits for name until ctx ends.
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

// try takes name and returns nil, or returns what is closed when its holder is done.
func (l *Locks) try(name string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait, busy := l.held[name]; busy {
		return wait
	}
	l.held[name] = make(chan struct{})
	return nil
}

// Release gives up a name.
func (l *Locks) Release(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.held[name])
	delete(l.held, name)
}

// Exclusive runs fn for name alone, and returns by the end of ctx even if fn does not:
// then fn goes on, holding name until it is done, and its result is lost.
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
