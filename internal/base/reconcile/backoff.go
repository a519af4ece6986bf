package reconcile

import "time"

// Backoff is how long to wait after failures in a row: First after one, twice as long after each further one, and Most at
// most. A Most below First counts as First.
type Backoff struct{ First, Most time.Duration }

// After is the wait after so many failures; none: 0.
func (b Backoff) After(failures int) time.Duration {
	if failures <= 0 || b.First <= 0 {
		return 0
	}
	wait, most := b.First, max(b.First, b.Most)
	for range failures - 1 {
		if wait > most/2 {
			return most
		}
		wait *= 2
	}
	return wait
}
