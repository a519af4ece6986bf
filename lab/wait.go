package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// fatalError ends a wait at once, because retrying cannot succeed.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

func fatal(err error) error { return fatalError{err} }

// wait calls cond until it returns true or a fatal error, or limit expires. It treats other errors as "not yet", and reports them if
// the time runs out.
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

// Eventually waits until cond holds, for at most limit. It treats an error of cond as "not yet", and includes it in its own error if
// the time runs out.
func Eventually(ctx context.Context, limit time.Duration, what string, cond func() (bool, error)) error {
	return wait(ctx, limit, what, cond)
}

// Fatal returns an error that ends [Eventually] at once.
func Fatal(err error) error { return fatal(err) }
