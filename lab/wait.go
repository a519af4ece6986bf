package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

// Fatal returns an error that ends [Eventually] at once, because retrying cannot succeed.
func Fatal(err error) error { return fatalError{err} }

// Eventually calls cond until it returns true or a [Fatal] error, or limit expires. It treats other errors as "not yet", and reports
// the last one if the time runs out.
func Eventually(ctx context.Context, limit time.Duration, what string, cond func() (bool, error)) error {
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
