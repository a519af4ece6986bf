package server

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// Timing of the event stream, per connection.
const (
	eventPause   = 500 * time.Millisecond // minimum time between two events
	heartbeat    = 15 * time.Second       // without events, after which a comment shows that the connection is alive
	eventTimeout = 10 * time.Second       // how long a client may leave sent data unread
	eventRetry   = 2 * time.Second        // after which a browser reconnects
)

// eventStream is what a client accepts that wants revisions as they come.
const eventStream = "text/event-stream"

// streams tells a request for the stream of revisions from one for what has happened, which accepts JSON or has a query.
func streams(r *http.Request) bool {
	accepts := r.Header.Get("Accept")
	return strings.Contains(accepts, eventStream) || r.URL.RawQuery == "" && !strings.Contains(accepts, "application/json")
}

// eventsQuery reads what a request for events asks for.
func eventsQuery(r *http.Request) (q answer.EventsQuery, err error) {
	form := r.URL.Query()
	q.VM = form.Get("vm")
	number := func(key string, bits int) (n uint64) {
		if text := form.Get(key); text != "" && err == nil {
			if n, err = strconv.ParseUint(text, 10, bits); err != nil {
				err = &api.Error{
					Text: key + ": " + strconv.Quote(model.Shorten(text)) + " is not a number", Remedy: "send for example " + key + "=20",
				}
			}
		}
		return n
	}
	q.Last = int(number("last", 31)) //nolint:gosec,mnd // fits an int everywhere
	q.After = number("after", 64)
	if err == nil {
		q.Since, err = timeOf(r, "since")
	}
	if err == nil {
		q.Until, err = timeOf(r, "until")
	}
	return q, err
}

// happened answers with what has happened.
func (h *handler) happened(w http.ResponseWriter, r *http.Request) {
	q, err := eventsQuery(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	out := h.opts.History.Events(q)
	if q.VM != "" && len(out.Lines) == 0 {
		if _, err := answer.Find(h.view(), q.VM); err != nil {
			writeError(w, http.StatusNotFound, err)
			return
		}
	}
	writeJSON(w, http.StatusOK, out)
}

// events sends every new revision, at most two per second; intermediate ones are skipped. The loop never waits for a
// client: each client fetches the latest revision when it gets to it. The stream lasts until the client disconnects or the
// server shuts down.
func (h *handler) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close") // no further request may use a connection that occupies a stream slot
	if c := connOf(r.Context()); c != nil && !c.stream() {
		writeError(w, http.StatusServiceUnavailable, tooMany("streams of events", c.share))
		return
	}
	w.Header().Set("Content-Type", eventStream)
	control := http.NewResponseController(w)
	send := func(text string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(eventTimeout)) // replaces the server's write timeout
		_, err := fmt.Fprint(w, text)
		return err == nil && control.Flush() == nil
	}
	there := send(fmt.Sprintf("retry: %d\n\n", eventRetry.Milliseconds()))
	for there {
		v, newer := h.opts.Backend.View()
		if !send(fmt.Sprintf("event: revision\ndata: %d\n\n", orEmpty(v).Revision)) {
			return
		}
		_, there = h.wait(r, nil, eventPause)
		for news := false; there && !news; {
			if news, there = h.wait(r, newer, heartbeat); there && !news {
				there = send(": nothing new\n\n")
			}
		}
	}
}

// wait returns on a new View or after most; there is false if the client has disconnected or the server is shutting down.
func (h *handler) wait(r *http.Request, newer <-chan struct{}, most time.Duration) (news, there bool) {
	over := time.NewTimer(most)
	defer over.Stop()
	select {
	case <-newer:
		return true, true
	case <-over.C:
		return false, true
	case <-h.closing:
	case <-r.Context().Done():
	}
	return false, false
}
