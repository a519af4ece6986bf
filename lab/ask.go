package lab

import (
	"context"
	"fmt"
	"time"
)

// Request is one request to an echo service, and its answer.
type Request struct {
	At   time.Time     // when it was sent, by the clock of the machine that asks; see [Gap]
	Took time.Duration // until its answer came; 0: there was none
}

// Requests are what became of a series of them.
type Requests struct {
	List        []Request // in the order in which they were sent
	Broken      bool      // the connection ended before its time
	Retransmits int       // segments that the asking TCP sent again
}

// Unanswered counts requests without an answer.
func (r Requests) Unanswered() (n int) {
	for _, q := range r.List {
		if q.Took == 0 {
			n++
		}
	}
	return n
}

// Asking is a series of requests under way.
type Asking struct{ probe *probe }

// StartRequests sends t.PPS requests of t.Size bytes a second from t.From to the echo service of t.To, over one connection
// of "tcp" or over "udp". They are sent on time, whether those before them were answered or not.
func (h *Host) StartRequests(ctx context.Context, t Traffic, protocol string) (*Asking, error) {
	p, err := h.startProbe(ctx, t.From, 0, fmt.Sprintf("ask %s %s 7 %g %d", protocol, t.target(), t.PPS, t.Size))
	return &Asking{p}, err
}

// Stop ends the series, waits some seconds for the last answers, and reports.
func (a *Asking) Stop(ctx context.Context) (Requests, error) {
	w, err := a.probe.stop(ctx)
	if err != nil {
		return Requests{}, err
	}
	r := Requests{Broken: w.Broken, Retransmits: w.Retransmits}
	for _, q := range w.Requests {
		r.List = append(r.List, Request{At: time.Unix(0, q[0]), Took: time.Duration(q[1])})
	}
	return r, nil
}
