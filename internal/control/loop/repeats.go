package loop

import (
	"strings"
	"time"
)

// repeats says which reports of something that goes on failing are worth a line in the
// log: the first, one when the reason has changed, and others at growing intervals.
type repeats struct {
	text string    // without digits: how long it has failed is no other reason
	last time.Time // when a line was due
	wait time.Duration
}

const (
	minRepeat = time.Minute
	maxRepeat = time.Hour
	anyRepeat = 10 * time.Second // between lines, even where two reasons take turns
)

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
		r.wait = minRepeat
	case text != r.text && since >= anyRepeat:
		r.wait = minRepeat
	case since >= r.wait:
		r.wait = min(2*r.wait, maxRepeat)
	default:
		return false
	}
	r.text, r.last = text, now
	return true
}

// over says that it works again, and whether it had failed.
func (r *repeats) over() bool {
	failed := r.text != ""
	*r = repeats{}
	return failed
}
