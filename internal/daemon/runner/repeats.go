package runner

import (
	"strings"
	"time"

	"sluice/internal/base/reconcile"
)

// repeats decides which reports of a continuing failure are logged: the first, one when the reason has changed, and others at
// growing intervals. It counts log lines and not attempts, so it is not a reconcile.Object.
type repeats struct {
	text  string    // without digits: a longer duration of the failure is not a different reason
	last  time.Time // when a line was last due
	lines int       // lines logged with this reason
}

// anyRepeat is the minimum time between lines, even if two reasons alternate.
const anyRepeat = 10 * time.Second

var sameReason = reconcile.Backoff{First: time.Minute, Most: time.Hour}

func (r *repeats) due(now time.Time, text string) bool {
	text = strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, text)
	since := now.Sub(r.last)
	switch {
	case r.text == "":
	case text != r.text && since >= anyRepeat:
		r.lines = 0
	case since >= sameReason.After(r.lines):
	default:
		return false
	}
	r.text, r.last, r.lines = text, now, r.lines+1
	return true
}

// over records that it works again, and reports whether it had failed.
func (r *repeats) over() bool {
	failed := r.text != ""
	*r = repeats{}
	return failed
}
