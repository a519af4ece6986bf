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
	known    bool
	revision uint64
	memory   answer.Memory
}

// remembered answers with the state of the loop. Only local callers may ask: copying the state takes time of the loop.
func (h *handler) remembered(w http.ResponseWriter, r *http.Request) {
	if !peerOf(r.Context()).local {
		writeError(w, http.StatusForbidden, &api.Error{
			Text:   "the loop's memory is not shown over TCP",
			Remedy: "use the unix socket on the host itself",
		})
		return
	}
	if !answer.Looked(h.view()) {
		notLooked(w)
		return
	}
	m, err := h.memory.get(r.Context(), h.opts.Backend, h.view().Revision)
	if err != nil {
		writeError(w, statusOf(err, http.StatusInternalServerError), err)
		return
	}
	writeJSON(w, http.StatusOK, m)
}

func (c *memoryCache) get(ctx context.Context, b Backend, revision uint64) (answer.Memory, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || c.revision != revision {
		m, err := b.Memory(ctx)
		if err != nil {
			return answer.Memory{}, err
		}
		c.known, c.revision, c.memory = true, revision, m
	}
	return c.memory, nil
}
