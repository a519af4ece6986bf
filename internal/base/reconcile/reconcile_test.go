package reconcile

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	start  = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	errTry = errors.New("it did not work")
	steps  = Backoff{First: time.Second, Most: 10 * time.Second}
)

// event is something that happened to an object. The model below answers every query by going through all events again.
type event struct {
	kind     string // want, begin, worked, failed, fail, change, look
	at       time.Time
	state    int       // of want and look
	attempt  uint64    // of begin and of results
	deadline time.Time // of begin
	began    time.Time // of look
}

type history []event

// last returns the index of the last event that satisfies is, or -1.
func (h history) last(is func(event) bool) int {
	for i := len(h) - 1; i >= 0; i-- {
		if is(h[i]) {
			return i
		}
	}
	return -1
}

func kinds(names ...string) func(event) bool {
	return func(e event) bool { return slices.Contains(names, e.kind) }
}

// beganAt returns the index at which the attempt with the result at i began, or -1 if a later one has begun or it already had a
// result.
func (h history) beganAt(i int) int {
	b := h[:i].last(kinds("begin"))
	earlier := func(e event) bool { return kinds("worked", "failed")(e) && e.attempt == h[i].attempt }
	if b < 0 || h[b].attempt != h[i].attempt || h[b:i].last(earlier) >= 0 {
		return -1
	}
	return b
}

// counts reports whether the result at i counts: the object has not changed since its attempt began.
func (h history) counts(i int) bool {
	b := h.beganAt(i)
	return b >= 0 && h[b:i].last(kinds("change")) < 0
}

// underWay returns the index at which the attempt without a result began, or -1.
func (h history) underWay() int {
	b := h.last(kinds("begin"))
	if b < 0 {
		return -1
	}
	for i := b + 1; i < len(h); i++ {
		if kinds("worked", "failed")(h[i]) && h.beganAt(i) == b {
			return -1
		}
	}
	return b
}

// failures returns the consecutive failures, the last one at the end.
func (h history) failures() (out []event) {
	for i, e := range h {
		switch {
		case e.kind == "change", e.kind == "worked" && h.counts(i):
			out = nil
		case e.kind == "fail", e.kind == "failed" && h.counts(i):
			out = append(out, e)
		}
	}
	return out
}

func (h history) want() int {
	if i := h.last(kinds("want")); i >= 0 {
		return h[i].state
	}
	return 0
}

// has returns the last known state.
func (h history) has() (state int, known bool) {
	for i, e := range h {
		switch e.kind {
		case "worked":
			if h.counts(i) {
				state, known = h[:h.beganAt(i)].want(), true
			}
		case "look":
			if h[:i].looks(e.began) {
				state, known = e.state, true
			}
		}
	}
	return state, known
}

// looks reports whether an observation that began then counts after all of h.
func (h history) looks(began time.Time) bool {
	if h.underWay() >= 0 {
		return false
	}
	for i, e := range h {
		switch e.kind {
		case "worked", "failed":
			if h.beganAt(i) >= 0 && !began.After(e.at) {
				return false
			}
		case "look":
			if h[:i].looks(e.began) && began.Before(e.began) {
				return false
			}
		}
	}
	return true
}

func (h history) pending(now time.Time) bool {
	b := h.underWay()
	return b >= 0 && (h[b].deadline.IsZero() || now.Before(h[b].deadline))
}

func (h history) resting(now time.Time) bool {
	failed := h.failures()
	if len(failed) == 0 {
		return false
	}
	wait := time.Second
	for range len(failed) - 1 {
		wait = min(2*wait, 10*time.Second)
	}
	return now.Before(failed[len(failed)-1].at.Add(wait))
}

// TestObjectRemembersAllThatMatters compares Object with a model that remembers all events.
func TestObjectRemembersAllThatMatters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			o   Object[int]
			h   history
			now = start
		)
		attempts := []uint64{0, 99}
		result := func(t *rapid.T, kind string, err error) {
			e := event{kind: kind, at: now, attempt: rapid.SampledFrom(attempts).Draw(t, "attempt")}
			h = append(h, e)
			if got, want := o.End(now, e.attempt, err, steps), h.counts(len(h)-1); got != want {
				t.Fatalf("the result counts: %v, want %v after %v", got, want, h)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"want": func(t *rapid.T) {
				o.Want = rapid.IntRange(0, 3).Draw(t, "state")
				h = append(h, event{kind: "want", at: now, state: o.Want})
			},
			"begin": func(t *rapid.T) {
				e := event{kind: "begin", at: now}
				if after := rapid.IntRange(0, 5).Draw(t, "deadline"); after > 0 {
					e.deadline = now.Add(time.Duration(after) * time.Second)
				}
				e.attempt = o.Begin(e.deadline)
				if slices.Contains(attempts, e.attempt) {
					t.Fatalf("attempt %d has the number of another", e.attempt)
				}
				attempts, h = append(attempts, e.attempt), append(h, e)
			},
			"worked": func(t *rapid.T) { result(t, "worked", nil) },
			"failed": func(t *rapid.T) { result(t, "failed", errTry) },
			"fail":   func(*rapid.T) { o.Failed.Fail(now, errTry, steps); h = append(h, event{kind: "fail", at: now}) },
			"change": func(*rapid.T) { o.Change(); h = append(h, event{kind: "change", at: now}) },
			"look": func(t *rapid.T) {
				e := event{kind: "look", at: now, state: rapid.IntRange(0, 3).Draw(t, "state")}
				e.began = now.Add(-time.Duration(rapid.IntRange(0, 4).Draw(t, "ago")) * time.Second)
				if got, want := o.Saw(e.began, e.state), h.looks(e.began); got != want {
					t.Fatalf("the look counts: %v, want %v after %v", got, want, h)
				}
				h = append(h, e)
			},
			"wait": func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(1, 12).Draw(t, "s")) * time.Second) },
			"": func(t *rapid.T) {
				failed := h.failures()
				has, known := h.has()
				if o.Pending(now) != h.pending(now) || o.Failed.Resting(now) != h.resting(now) || o.Ready(now) == (h.pending(now) || h.resting(now)) {
					t.Fatalf("%+v: want pending %v, resting %v after %v", o, h.pending(now), h.resting(now), h)
				}
				if o.Failed.Count != len(failed) || (o.Failed.Err != nil) != (len(failed) > 0) || o.Known != known || o.Has != has ||
					o.Want != h.want() {
					t.Fatalf("%+v: want %d failures, has %d (%v) after %v", o, len(failed), has, known, h)
				}
			},
		})
	})
}

// TestTablePrunes checks that a Table removes what a complete observation does not show, and nothing else.
func TestTablePrunes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table Table[int, int]
		pending, model := map[int]uint64{}, map[int]bool{}
		key := rapid.IntRange(0, 5)
		t.Repeat(map[string]func(*rapid.T){
			"touch":  func(t *rapid.T) { k := key.Draw(t, "key"); table.Object(k); model[k] = true },
			"delete": func(t *rapid.T) { k := key.Draw(t, "key"); table.Delete(k); delete(model, k); delete(pending, k) },
			"begin": func(t *rapid.T) {
				k := key.Draw(t, "key")
				pending[k], model[k] = table.Object(k).Begin(time.Time{}), true
			},
			"end": func(*rapid.T) {
				for k, attempt := range pending {
					table.Object(k).End(start, attempt, nil, steps)
				}
				clear(pending)
			},
			"look": func(t *rapid.T) {
				there := rapid.SliceOf(key).Draw(t, "there")
				complete := rapid.Bool().Draw(t, "complete")
				table.Prune(start, complete, func(k int) bool { return slices.Contains(there, k) })
				maps.DeleteFunc(model, func(k int, _ bool) bool { return complete && pending[k] == 0 && !slices.Contains(there, k) })
			},
			"": func(t *rapid.T) {
				for k := range 6 {
					_ = table.Find(k) // a query adds nothing
				}
				got := map[int]bool{}
				for k := range table.objects {
					got[k] = true
				}
				if !maps.Equal(got, model) || len(table.objects) != len(model) {
					t.Fatalf("has %v, want %v", got, model)
				}
			},
		})
	})
}

// TestPruneWaitsNoLongerThanTheDeadline checks that an object whose attempt never ends is removed after its deadline.
func TestPruneWaitsNoLongerThanTheDeadline(t *testing.T) {
	var table Table[int, int]
	table.Object(1).Begin(start.Add(time.Second))
	for after, want := range map[time.Duration]int{0: 1, time.Second: 0} {
		one := Table[int, int]{objects: maps.Clone(table.objects)}
		one.Prune(start.Add(after), true, func(int) bool { return false })
		if len(one.objects) != want {
			t.Errorf("after %s: %d objects, want %d", after, len(one.objects), want)
		}
	}
}

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		backoff  Backoff
		failures int
		want     time.Duration
	}{
		{steps, 0, 0},
		{steps, 1, time.Second},
		{steps, 2, 2 * time.Second},
		{steps, 4, 8 * time.Second},
		{steps, 5, 10 * time.Second},
		{steps, 1 << 40, 10 * time.Second},
		{Backoff{First: time.Minute, Most: time.Second}, 3, time.Minute},
		{Backoff{First: time.Second, Most: 1<<63 - 1}, 200, 1<<63 - 1},
		{Backoff{}, 5, 0},
	} {
		if got := c.backoff.After(c.failures); got != c.want {
			t.Errorf("%+v after %d failures: %s, want %s", c.backoff, c.failures, got, c.want)
		}
	}
}
