package server

import (
	"net/http"
	"sync"
	"time"

	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// renderedFor is how long a copy of the metrics serves while there is no new View: figures of the process
// and the age of the last look at the host go on.
const renderedFor = time.Second

// rendered serves one copy a revision, however many ask for it.
type rendered struct {
	render func(*model.View) []byte
	good   time.Duration // at most for so long; 0: as long as there is no new View

	mu       sync.Mutex
	text     []byte // nil: none yet
	revision uint64
	at       time.Time
}

// of is the text for a View, the latest. Who comes while it is made waits for it.
func (c *rendered) of(v *model.View) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.text == nil || v.Revision != c.revision || c.good > 0 && time.Since(c.at) >= c.good {
		c.text, c.revision, c.at = c.render(v), v.Revision, time.Now()
	}
	return c.text
}

// shared is looked for answers that are the same for everybody: they are made once a revision.
func (h *handler) shared(reply func(*model.View) any) http.HandlerFunc {
	c := &rendered{render: func(v *model.View) []byte { return encode(reply(v)) }}
	return func(w http.ResponseWriter, r *http.Request) {
		switch v := h.await(w, r); {
		case v == nil:
		case !answer.Looked(v):
			notLooked(w)
		default:
			writeText(w, http.StatusOK, c.of(v))
		}
	}
}
