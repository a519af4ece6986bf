package web

import (
	"bytes"
	"net/http"
	"net/url"
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
	render http.Handler

	mu       sync.Mutex
	page     *page // nil: none yet
	revision uint64
	at       time.Time
}

// ServeHTTP implements http.Handler.
func (c *rendered) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := c.fresh(r)
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.WriteHeader(p.status)
	_, _ = w.Write(p.body.Bytes()) // the reader may be gone: nothing to be done about it
}

// fresh is the page of the latest View. Who comes while it is made waits for it.
func (c *rendered) fresh(r *http.Request) *page {
	c.mu.Lock()
	defer c.mu.Unlock()
	rev := orEmpty(c.view()).Revision
	if c.page == nil || rev != c.revision || time.Since(c.at) >= renderedFor {
		// The copy is for everybody: all of it, in the text format, which all take.
		plain := (&http.Request{Method: http.MethodGet, URL: &url.URL{}, Header: http.Header{}}).WithContext(r.Context())
		p := &page{header: http.Header{}, status: http.StatusOK}
		c.render.ServeHTTP(p, plain)
		c.page, c.revision, c.at = p, rev, time.Now()
	}
	return c.page
}

// page is an answer in memory; an http.ResponseWriter while it is written.
type page struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (p *page) Header() http.Header         { return p.header }
func (p *page) WriteHeader(status int)      { p.status = status }
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }
