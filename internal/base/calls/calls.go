// Package calls runs functions inside the goroutine of somebody else's loop.
package calls

import (
	"context"
	"time"
)

// Queue has functions that wait for their turn. The loop receives from it and runs them with its time.
type Queue chan func(now time.Time)

// Do has the loop run f, and waits until it has. It returns ctx's error if f was not run.
func (q Queue) Do(ctx context.Context, f func(now time.Time)) error {
	done := make(chan struct{})
	select {
	case q <- func(now time.Time) { f(now); close(done) }:
	case <-ctx.Done():
		return ctx.Err()
	}
	<-done
	return nil
}
