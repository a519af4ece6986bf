package loop

import (
	"testing"
	"time"
)

// Moves that failed an hour ago are no longer counted as the last hour's, nor kept.
func TestFailuresOfTheLastHour(t *testing.T) {
	var r record
	at := time.Unix(1e9, 0)
	for range 5 {
		r.fail(at)
		at = at.Add(20 * time.Minute)
	}
	for after, want := range map[time.Duration]int{0: 2, 19 * time.Minute: 2, 20 * time.Minute: 1, 40 * time.Minute: 0} {
		if n := r.failedHour(at.Add(after)); n != want {
			t.Errorf("%s later: %d in the last hour, want %d", after, n, want)
		}
	}
	if r.totals.Failed != 5 || len(r.failed) > 3 {
		t.Errorf("%d failed in all, %d kept", r.totals.Failed, len(r.failed))
	}
}
