package web

import (
	"net/http"
	"sync"
	"time"

	"sluice/internal/model"
)

// renderedFor is how long a copy serves while there is no new View: figures of the process
// and the age of the last look at the host go on.
const renderedFor = time.Second

// rendered serves one copy of the metrics a revision, however many ask for it.
type rendered struct {
	view   func() *model.View
	render func(*model.View) []byte

	mu       sync.Mutex
	text     []byte // nil: none yet
	revision uint64
	at       time.Time
}

// ServeHTTP implements http.Handler.
func (c *rendered) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(c.fresh()) // the reader may be gone: nothing to be done about it
}

// fresh is the text for the latest View. Who comes while it is made waits for it.
func (c *rendered) fresh() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := orEmpty(c.view())
	if c.text == nil || v.Revision != c.revision || time.Since(c.at) >= renderedFor {
		c.text, c.revision, c.at = c.render(v), v.Revision, time.Now()
	}
	return c.text
}
