package server

import (
	"net/http"
	"sync"
	"time"

	"sluice/internal/model"
)

// renderedFor is how long rendered metrics are reused while there is no new View: process metrics and the age of the last
// observation change in between.
const renderedFor = time.Second

// rendered caches one rendered text per revision, for all requests.
type rendered struct {
	render func(*model.View) []byte
	good   time.Duration // maximum age of the text; 0: until there is a new View

	mu       sync.Mutex
	text     []byte // nil: none yet
	revision uint64
	at       time.Time
}

// of returns the text for the latest View. Concurrent requests wait while it is rendered.
func (c *rendered) of(v *model.View) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.text == nil || v.Revision != c.revision || c.good > 0 && time.Since(c.at) >= c.good {
		c.text, c.revision, c.at = c.render(v), v.Revision, time.Now()
	}
	return c.text
}

// cached is observed for answers that are the same for everybody: they are rendered once per revision.
func cached[T any](h *handler, reply func(*model.View) T) http.HandlerFunc {
	c := &rendered{render: func(v *model.View) []byte { return encode(reply(v)) }}
	return func(w http.ResponseWriter, r *http.Request) {
		if v := h.awaitObserved(w, r); v != nil {
			writeText(w, http.StatusOK, c.of(v))
		}
	}
}
