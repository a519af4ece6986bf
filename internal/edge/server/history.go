package server

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// History is the daemon's recording of the last hour. Querying it must not block the loop.
type History interface {
	History(q answer.HistoryQuery) api.History
	Events(q answer.EventsQuery) api.Events
}

// WhatIf returns what other policies would have achieved in the last hour, as far as computed. It must not block.
type WhatIf interface {
	WhatIf(v *model.View) api.WhatIf
}

// recentSteps limits which answers about the whole host are cached per revision: the complete one, and those from a step at
// most this far from the end, as clients that follow the history ask for. Arbitrary times are not cached.
const recentSteps = 4

// histories caches each answer about the whole host for one revision.
type histories struct {
	mu       sync.Mutex
	revision uint64
	to       time.Time               // the end of the last answer
	made     map[int64]func() []byte // by From; the first request builds the answer, and others wait for it

	uncached sync.Mutex // held while an answer that is not cached is built: one at a time
}

// history answers with the last hour, or the requested part of it.
func (h *handler) history(w http.ResponseWriter, r *http.Request) {
	q, err := historyQuery(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	v := h.awaitObserved(w, r)
	if v == nil {
		return
	}
	if q.VM == "" {
		writeText(w, http.StatusOK, h.past.text(v.Revision, q, h.opts.History))
		return
	}
	past := h.opts.History.History(q)
	if len(past.VMs) == 0 {
		if _, err := answer.Find(v, q.VM); err != nil {
			writeError(w, http.StatusNotFound, err)
			return
		}
	}
	writeJSON(w, http.StatusOK, past)
}

func historyQuery(r *http.Request) (q answer.HistoryQuery, err error) {
	q.VM = r.URL.Query().Get("vm")
	q.From, err = timeOf(r, "from")
	q.From = q.From.Truncate(answer.HistoryStep)
	return q, err
}

// timeOf returns the time that a request gives as key, zero if it gives none.
func timeOf(r *http.Request, key string) (time.Time, error) {
	text := r.URL.Query().Get(key)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, &api.Error{
			Text: key + ": " + strconv.Quote(model.Shorten(text)) + " is not a time", Remedy: "send for example " + key + "=2026-03-01T12:00:00Z",
		}
	}
	return t, nil
}

// text returns an encoded history, nil if it cannot be encoded. Requests for the same history wait while it is built; others
// do not.
func (c *histories) text(revision uint64, q answer.HistoryQuery, from History) []byte {
	build := func() []byte {
		past := from.History(q)
		text := encode(past)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.to = past.To
		return text
	}
	if cached := c.cached(revision, q.From, build); cached != nil {
		return cached()
	}
	c.uncached.Lock()
	defer c.uncached.Unlock()
	return build()
}

// cached returns the function that builds an answer once, nil if the answer is not cached.
func (c *histories) cached(revision uint64, from time.Time, build func() []byte) func() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revision != revision || c.made == nil {
		c.revision, c.made = revision, map[int64]func() []byte{}
	}
	if !from.IsZero() && c.to.Sub(from).Abs() > recentSteps*answer.HistoryStep {
		return nil
	}
	if c.made[from.Unix()] == nil {
		c.made[from.Unix()] = sync.OnceValue(build)
	}
	return c.made[from.Unix()]
}
