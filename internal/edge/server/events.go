package server

import (
	"fmt"
	"net/http"
	"time"
)

// Times of the stream of events, each of one connection.
const (
	eventPause   = 500 * time.Millisecond // at least between two events
	heartbeat    = 15 * time.Second       // without events, after which a comment tells that the connection stands
	eventTimeout = 10 * time.Second       // for which a reader may leave unread what is sent
	eventRetry   = 2 * time.Second        // after which a browser connects anew
)

// events tells of every new revision, but at most twice a second: those in between are left out. The loop waits for no
// reader: each takes the latest revision when it comes to that. It lasts until the reader goes or the server ends.
func (h *handler) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close") // so that no request comes over a connection that has the place of a stream
	if c := connOf(r.Context()); c != nil && !c.stream() {
		writeError(w, http.StatusServiceUnavailable, tooMany("streams of events", c.share))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	send := func(text string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(eventTimeout)) // in place of the answer's
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

// wait ends with news, or after that time; there is false when the reader has gone or the server ends.
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
