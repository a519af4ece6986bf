package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// fatalError ends a wait at once: no use in trying again.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

func fatal(err error) error { return fatalError{err} }

// wait calls cond until it is true, returns a fatal error, or limit is over.
// Other errors are taken for "not yet", and told if the time runs out.
func wait(ctx context.Context, limit time.Duration, what string, cond func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	pause := 20 * time.Millisecond
	for {
		done, err := cond()
		var f fatalError
		if errors.As(err, &f) {
			return f.error
		}
		if done && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = ctx.Err()
			}
			return fmt.Errorf("%s: not within %v: %w", what, limit, err)
		case <-time.After(pause):
		}
		if pause < 500*time.Millisecond {
			pause = pause * 3 / 2
		}
	}
}

// Eventually waits until cond holds, for at most limit. An error of cond counts
// as "not yet" and is part of what is returned when the time runs out.
func Eventually(ctx context.Context, limit time.Duration, what string, cond func() (bool, error)) error {
	return wait(ctx, limit, what, cond)
}

// Fatal makes an error that ends [Eventually] at once.
func Fatal(err error) error { return fatal(err) }
