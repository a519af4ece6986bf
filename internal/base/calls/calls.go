// Package calls runs functions in the goroutine of another component's loop.
package calls

import (
	"context"
	"time"
)

// Queue holds functions to be run by a loop, which receives from it and calls them with its time.
type Queue chan func(now time.Time)

// Do makes the loop run f and waits until f returns. It returns ctx's error if f was not run.
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
