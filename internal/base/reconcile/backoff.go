package reconcile

import "time"

// Backoff is the wait after consecutive failures: First after the first one, doubled for each further one, at most Most. A Most
// below First counts as First.
type Backoff struct{ First, Most time.Duration }

// After returns the wait after that many failures, 0 after none.
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
