package runner

import (
	"strings"
	"time"

	"sluice/internal/base/reconcile"
)

// repeats says which reports of something that goes on failing are worth a line in the
// log: the first, one when the reason has changed, and others at growing intervals. It counts lines and not attempts, so
// it is not a reconcile.Object.
type repeats struct {
	text  string    // without digits: a longer duration of the failure is not another reason
	last  time.Time // when a line was due
	lines int       // with this reason
}

// anyRepeat is the least time between lines, even where two reasons take turns.
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

// over says that it works again, and whether it had failed.
func (r *repeats) over() bool {
	failed := r.text != ""
	*r = repeats{}
	return failed
}
