package web

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// Recent is what a recording needs of the daemon: what it saw last, what it was asked
// to do, and the moves that have ended, without their steps.
type Recent struct {
	Snapshot *model.Snapshot    `json:"snapshot"`
	Rules    model.Rules        `json:"rules"`
	Decided  time.Time          `json:"decided"` // when it decided on the Snapshot
	Ended    []model.MoveStatus `json:"ended"`   // newest first
}

// LastSeen picks it from a View.
func LastSeen(v *model.View) Recent {
	r := Recent{Snapshot: v.Snapshot, Rules: v.Rules, Ended: append([]model.MoveStatus{}, v.Recent...)}
	if v.Target != nil {
		r.Decided = v.Target.Time
	}
	for i := range r.Ended {
		r.Ended[i].Move.Steps, r.Ended[i].Times = nil, nil
	}
	return r
}

// LastSeen asks for what the daemon saw last.
func (c *Client) LastSeen(ctx context.Context) (Recent, error) {
	return get[Recent](ctx, c, "snapshot")
}

// Memory is what the daemon's loop knows beside its rules and Snapshot, for the replay of
// a recording to begin with.
type Memory struct {
	Time  time.Time       `json:"time"` // of the last Snapshot decided on
	Busy  int             `json:"busy"` // moves under way, which are not in it
	State json.RawMessage `json:"state"`
}

// Memory asks for what the daemon's loop knows.
func (c *Client) Memory(ctx context.Context) (Memory, error) {
	return get[Memory](ctx, c, "memory")
}

// memoryCache keeps the answer for one revision, so that asking often costs the loop nothing.
type memoryCache struct {
	mu       sync.Mutex
	known    bool
	revision uint64
	memory   Memory
}

// remembered answers with what the loop knows. Only who is on this host may ask: to copy
// it takes some of the loop's time.
func (h *handler) remembered(w http.ResponseWriter, r *http.Request) {
	if !peerOf(r.Context()).local {
		writeError(w, http.StatusForbidden, &api.Error{Text: "the loop's memory is not shown over TCP", Remedy: "use the unix socket on the host itself"})
		return
	}
	if !Looked(h.view()) {
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

func (c *memoryCache) get(ctx context.Context, b Backend, revision uint64) (Memory, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || c.revision != revision {
		m, err := b.Memory(ctx)
		if err != nil {
			return Memory{}, err
		}
		c.known, c.revision, c.memory = true, revision, m
	}
	return c.memory, nil
}
