package server

import (
	"context"
	"net/http"
	"sync"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
)

// memoryCache caches the answer for one revision, so that frequent requests do not load the loop.
type memoryCache struct {
	mu       sync.Mutex
	revision uint64
	memory   *answer.Memory // nil: none yet
}

// lastSeen answers with the last Sample, and with earlier ones taken after ?since=.
func (h *handler) lastSeen(w http.ResponseWriter, r *http.Request) {
	since, err := timeOf(r, "since")
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	if v := h.awaitObserved(w, r); v != nil {
		writeJSON(w, http.StatusOK, answer.LastSeen(v, since))
	}
}

// loopMemory answers with the state of the loop. Only local callers may ask: copying the state takes time of the loop.
func (h *handler) loopMemory(w http.ResponseWriter, r *http.Request) {
	if !peerOf(r.Context()).local {
		writeError(w, http.StatusForbidden, &api.Error{
			Text:   "the loop's memory is not available over TCP",
			Remedy: "use the unix socket on the host itself",
		})
		return
	}
	v := h.awaitObserved(w, r)
	if v == nil {
		return
	}
	m, err := h.memory.get(r.Context(), h.opts.Backend, v.Revision)
	if err != nil {
		writeError(w, statusOf(err, http.StatusInternalServerError), err)
		return
	}
	writeJSON(w, http.StatusOK, m)
}

func (c *memoryCache) get(ctx context.Context, b Backend, revision uint64) (*answer.Memory, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.memory == nil || c.revision != revision {
		m, err := b.Memory(ctx)
		if err != nil {
			return nil, err
		}
		c.revision, c.memory = revision, &m
	}
	return c.memory, nil
}
