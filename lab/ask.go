package lab

import (
	"context"
	"fmt"
	"time"
)

// Request is one request to an echo service and its answer.
type Request struct {
	At   time.Time     // when it was sent, by the clock of the sending machine; see [Gap]
	Took time.Duration // until the answer came; 0: no answer
}

// Requests are the results of a series of requests.
type Requests struct {
	List        []Request // in the order in which they were sent
	Broken      bool      // the connection ended early
	Retransmits int       // segments that the sending TCP retransmitted
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

// Asking is a series of requests in progress.
type Asking struct{ probe *probe }

// StartRequests sends t.PPS requests of t.Size bytes per second from t.From to the echo service of t.To, over one connection of "tcp"
// or over "udp". It sends them on time, whether earlier ones were answered or not.
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
