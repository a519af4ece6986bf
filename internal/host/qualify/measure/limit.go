package measure

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/host/qualify"
)

// limitRounds is how often a limit is tried: on a busy host, a VF may by chance send for a second no more than a limit that nobody
// enforces.
const limitRounds = 3

// limitTrial is how a limit is tried.
type limitTrial struct {
	name   string
	flood  func() (perSecond float64, err error) // sends as fast as a VF can for a second, and returns what passed
	choose func(quarter uint64) uint64           // the limit to try, given a quarter of what passed without one
	set    func(limit uint64) error              // 0: no limit
}

// limit sends as fast as a VF can, by turns without a limit and with one.
func (r *run) limit(ctx context.Context, t *qualify.LimitTest, by limitTrial) error {
	flood := func(to *[]float64) error {
		passed, err := by.flood()
		if err != nil {
			t.Error = err.Error()
			return err
		}
		*to = append(*to, passed)
		return nil
	}
	for i := range limitRounds {
		round := fmt.Sprintf(", %d of %d", i+1, limitRounds)
		err := r.step(ctx, "sending as fast as a VF can, for a second"+round, func() error { return flood(&t.Free) })
		if err != nil || t.Error != "" {
			return err
		}
		err = r.step(ctx, "and with "+by.name+round, func() error {
			limit := by.choose(uint64(t.Free[0] / 4))
			switch err := by.set(limit); {
			case err != nil && i == 0:
				t.Refused = reason(err)
				return nil
			case err != nil: // which it took before
				t.Error = fmt.Sprintf("set the limit again: %v", err)
				return nil
			}
			t.Limit = limit
			err := flood(&t.Limited)
			if back := by.set(0); back != nil {
				err = errors.Join(err, fmt.Errorf("remove the limit: %w", back))
				t.Error = err.Error() // what passes without one can no longer be measured
			}
			return err
		})
		if err != nil || t.Error != "" || t.Refused != "" {
			return err
		}
	}
	return nil
}
