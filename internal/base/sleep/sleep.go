// Package sleep waits for a time, interruptible by a context.
package sleep

import (
	"context"
	"time"
)

// For waits for d, or until ctx ends, and then returns ctx's error.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
