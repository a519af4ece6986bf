package web

import (
	"net/http"
	"sync"
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// History is what the daemon remembers of the time before now. Asking it must not hold up the loop.
type History interface {
	History(q HistoryQuery) api.History
}

// WhatIf says what other policies would have done with the last hour, as far as that is worked out. It must not wait.
type WhatIf interface {
	WhatIf(v *model.View) api.WhatIf
}

// HistoryQuery says of what and from when on.
type HistoryQuery struct {
	VM   string    // name or UUID; "": all there is
	From time.Time // no step that begins before; zero: from the first on

	Bytes bool // of all VMs; of one they are always there
}

// maxHistories bounds how many answers about the whole host are kept for a revision: most readers ask for
// all there is, or from the end of the same step on.
const maxHistories = 4

// histories serves one copy of each answer about the whole host a revision.
type histories struct {
	mu       sync.Mutex
	revision uint64
	text     map[int64][]byte // by begin
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
	case !Looked(v):
		notLooked(w)
	case q.VM == "":
		writeText(w, http.StatusOK, h.past.answer(v.Revision, q, h.opts.History))
	default:
		h.historyOf(w, v, q)
	}
}

func (h *handler) historyOf(w http.ResponseWriter, v *model.View, q HistoryQuery) {
	answer := h.opts.History.History(q)
	if len(answer.VMs) == 0 {
		if _, err := Find(v, q.VM); err != nil {
			writeError(w, http.StatusNotFound, err)
			return
		}
	}
	writeJSON(w, http.StatusOK, answer)
}

func historyQuery(r *http.Request) (q HistoryQuery, err error) {
	q.VM = r.URL.Query().Get("vm")
	if text := r.URL.Query().Get("from"); text != "" {
		if q.From, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return q, &api.Error{Text: "from: " + quote(text) + " is no time", Remedy: "send the time `to` of the last answer, such as 2026-03-01T12:00:00Z"}
		}
	}
	return q, nil
}

// answer is nil if the history cannot be written. Who comes while it is made waits for it.
func (c *histories) answer(revision uint64, q HistoryQuery, from History) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revision != revision {
		c.revision, c.text = revision, map[int64][]byte{}
	}
	key := q.From.UnixNano()
	text := c.text[key]
	if text == nil {
		text = encode(from.History(q))
		if len(c.text) < maxHistories {
			c.text[key] = text
		}
	}
	return text
}
