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

// History is what the daemon remembers of the time before now. Asking it must not hold up the loop.
type History interface {
	History(q answer.HistoryQuery) api.History
}

// WhatIf says what other policies would have done with the last hour, as far as that is worked out. It must not wait.
type WhatIf interface {
	WhatIf(v *model.View) api.WhatIf
}

// recentSteps bounds which answers about the whole host are kept for a revision: that with all there is and those from a
// step on that is no further from the end, as readers who follow ask. Made-up times take no place.
const recentSteps = 4

// histories serves one copy of each answer about the whole host a revision.
type histories struct {
	mu       sync.Mutex
	revision uint64
	to       time.Time // the end of the last answer
	made     map[int64]*madeHistory

	odd sync.Mutex // held while an answer is made that is not kept: one at a time
}

// madeHistory is made by who comes first; the others wait for that.
type madeHistory struct {
	once sync.Once
	text []byte
}

// history answers with the last hour, or what of it is asked for.
func (h *handler) history(w http.ResponseWriter, r *http.Request) {
	q, err := historyQuery(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	v := h.await(w, r)
	switch {
	case v == nil:
	case !answer.Looked(v):
		notLooked(w)
	case q.VM == "":
		writeText(w, http.StatusOK, h.past.answer(v.Revision, q, h.opts.History))
	default:
		h.historyOf(w, v, q)
	}
}

func (h *handler) historyOf(w http.ResponseWriter, v *model.View, q answer.HistoryQuery) {
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
	if text := r.URL.Query().Get("from"); text != "" {
		if q.From, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return q, &api.Error{Text: "from: " + strconv.Quote(model.Shorten(text)) + " is no time", Remedy: "send the time `to` of the last answer, such as 2026-03-01T12:00:00Z"}
		}
	}
	q.From = q.From.Truncate(answer.HistoryStep)
	return q, nil
}

// answer is nil if the history cannot be written. Who asks for the same while it is made waits for it, and nobody else.
func (c *histories) answer(revision uint64, q answer.HistoryQuery, from History) []byte {
	m := c.place(revision, q.From)
	if m == nil {
		c.odd.Lock()
		defer c.odd.Unlock()
		m = &madeHistory{}
	}
	m.once.Do(func() {
		past := from.History(q)
		m.text = encode(past)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.to = past.To
	})
	return m.text
}

// place is nil for an answer that is not kept.
func (c *histories) place(revision uint64, from time.Time) *madeHistory {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revision != revision || c.made == nil {
		c.revision, c.made = revision, map[int64]*madeHistory{}
	}
	if !from.IsZero() && c.to.Sub(from).Abs() > recentSteps*answer.HistoryStep {
		return nil
	}
	m := c.made[from.Unix()]
	if m == nil {
		m = &madeHistory{}
		c.made[from.Unix()] = m
	}
	return m
}
