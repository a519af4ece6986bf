package server

import (
	"fmt"
	"net/http"
	"time"
)

// Timing of the event stream, per connection.
const (
	eventPause   = 500 * time.Millisecond // minimum time between two events
	heartbeat    = 15 * time.Second       // without events, after which a comment shows that the connection is alive
	eventTimeout = 10 * time.Second       // how long a client may leave sent data unread
	eventRetry   = 2 * time.Second        // after which a browser reconnects
)

// events sends every new revision, at most two per second; intermediate ones are skipped. The loop never waits for a
// client: each client fetches the latest revision when it gets to it. The stream lasts until the client disconnects or the
// server shuts down.
func (h *handler) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close") // no further request may use a connection that occupies a stream slot
	if c := connOf(r.Context()); c != nil && !c.stream() {
		writeError(w, http.StatusServiceUnavailable, tooMany("streams of events", c.share))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
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
