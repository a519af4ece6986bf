package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// handler answers requests.
type handler struct {
	opts     Options
	roles    roles
	hosts    hosts
	memory   memoryCache
	past     histories
	refusals refusals
	tokens   *tokens       // nil: nobody needs one
	closing  chan struct{} // closed when the server shuts down, to end all waits
}

// NewHandler serves the API, the metrics and the health check. The role of a request follows from its connection: see
// withPeer.
func NewHandler(o Options) http.Handler { return newHandler(o).routes() }

func newHandler(o Options) *handler {
	return &handler{opts: o, roles: newRoles(o), hosts: newHosts(o.Listen, o.Hosts), closing: make(chan struct{})}
}

func (h *handler) routes() http.Handler {
	o := h.opts
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", read(h, h.status))
	mux.HandleFunc("GET /v1/doctor", read(h, func(v *model.View) api.Doctor { return api.Doctor{Problems: answer.Problems(h.problems(v))} }))
	mux.HandleFunc("GET /v1/overrides", read(h, answer.Overrides))
	mux.HandleFunc("GET /v1/vms", cached(h, answer.VMs))
	mux.HandleFunc("GET /v1/vfs", cached(h, answer.VFs))
	mux.HandleFunc("GET /v1/bandwidth", cached(h, answer.Bandwidth))
	mux.HandleFunc("GET /v1/capacity", observed(h, answer.Capacity))
	mux.HandleFunc("GET /v1/sla", cached(h, answer.SLAs))
	mux.HandleFunc("GET /v1/plan", cached(h, answer.Planned))
	mux.HandleFunc("GET /v1/fsck", cached(h, answer.Checked))
	mux.HandleFunc("GET /v1/snapshot", h.lastSeen)
	mux.HandleFunc("GET /v1/memory", h.loopMemory)
	mux.HandleFunc("GET /v1/vpf", h.virtualPFs)
	if o.History != nil {
		mux.HandleFunc("GET /v1/history", h.history)
		mux.HandleFunc("GET /v1/events", h.happened)
	}
	if o.WhatIf != nil {
		mux.HandleFunc("GET /v1/whatif", observed(h, o.WhatIf.WhatIf))
	}
	mux.HandleFunc("GET /v1/explain/{vm}", h.explain)
	mux.HandleFunc("GET /healthz", h.health)
	mux.Handle("GET /metrics", metricsHandler(o))
	for _, verb := range []api.Verb{
		api.VerbPin, api.VerbRelease, api.VerbUnpin, api.VerbDrain, api.VerbUndrain, api.VerbReload, api.VerbRepair, api.VerbSetSLA,
		api.VerbClearSLA,
	} {
		mux.HandleFunc("POST /v1/"+verb.Path(), h.change(verb))
	}
	mux.HandleFunc("PUT /v1/claims", h.putClaims)
	mux.HandleFunc("GET /v1/ports", observed(h, h.ports))
	mux.HandleFunc("PUT /v1/ports", h.putPorts)
	h.taskRoutes(mux)
	if o.Page != nil {
		for _, path := range []string{"/{$}", "/vm/{vm}", "/assets/"} {
			mux.Handle("GET "+path, o.Page)
		}
	}
	mux.HandleFunc("/", notFound)
	all := http.NewServeMux()
	limited := timed(mux)
	all.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		if streams(r) {
			h.events(w, r)
		} else {
			limited.ServeHTTP(w, r)
		}
	})
	all.Handle("/", limited)
	return h.bounded(all)
}

// timed limits the duration of a request.
func timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), commandTimeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// maxBody bounds a request body: a VM's name, a reason and an SLA.
const maxBody = 4 << 10

// bounded limits the size of requests, and rejects those that another site's page made a browser send.
func (h *handler) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most := int64(maxBody)
		if r.Method == http.MethodPut {
			most = maxListBody
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if peerOf(r.Context()).tcp && !h.hosts.allow(r.Host) {
			writeError(w, http.StatusMisdirectedRequest, &api.Error{
				Text:   "this is not " + strconv.Quote(model.Shorten(r.Host)),
				Remedy: "add the name to api.hosts of sluice.yaml, or use the address",
			})
			return
		}
		if peerOf(r.Context()).tcp && h.tokens != nil && !h.tokens.allow(r) {
			unauthorized(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// view returns the latest View, never nil.
func (h *handler) view() *model.View {
	v, _ := h.opts.Backend.View()
	return orEmpty(v)
}

func orEmpty(v *model.View) *model.View {
	if v == nil {
		return &model.View{}
	}
	return v
}

// read replies with a pure function of the latest View, or of the next one if the request asks to wait for it.
func read[T any](h *handler, reply func(*model.View) T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if v := h.await(w, r); v != nil {
			writeJSON(w, http.StatusOK, reply(v))
		}
	}
}

// errNotObserved is the answer before the first observation of the host, which is not the same as an empty host.
var errNotObserved = &api.Error{
	Text:   "the host has not been observed yet",
	Remedy: "wait a moment; if this persists, `sluice doctor` says why",
}

// observed is read for answers that are meaningless before the first observation of the host.
func observed[T any](h *handler, reply func(*model.View) T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if v := h.awaitObserved(w, r); v != nil {
			writeJSON(w, http.StatusOK, reply(v))
		}
	}
}

// awaitObserved is await that also answers the request, and returns nil, if the host has not been observed yet.
func (h *handler) awaitObserved(w http.ResponseWriter, r *http.Request) *model.View {
	v := h.await(w, r)
	if v != nil && !answer.Observed(v) {
		notObserved(w)
		return nil
	}
	return v
}

func notObserved(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	writeError(w, http.StatusServiceUnavailable, errNotObserved)
}

// await returns the latest View as soon as its revision differs from ?after=, and sets the revision header. It returns nil
// if it has already answered the request: the request was invalid, or the wait expired.
func (h *handler) await(w http.ResponseWriter, r *http.Request) *model.View {
	after, wait, err := waitFor(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return nil
	}
	for deadline := time.Now().Add(wait); ; {
		v, newer := h.opts.Backend.View()
		v = orEmpty(v)
		w.Header().Set(api.RevisionHeader, strconv.FormatUint(v.Revision, 10))
		if after == nil || v.Revision != *after {
			return v
		}
		if news, _ := h.wait(r, newer, time.Until(deadline)); !news {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
}

// waitFor parses ?after= and ?wait=; after is nil if the request does not wait.
func waitFor(r *http.Request) (after *uint64, wait time.Duration, err error) {
	q := r.URL.Query()
	if text := q.Get("wait"); text != "" {
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 {
			return nil, 0, &api.Error{
				Text:   "wait: " + strconv.Quote(model.Shorten(text)) + " is not a duration",
				Remedy: "write for example wait=30s",
			}
		}
	}
	if text := q.Get("after"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, 0, &api.Error{
				Text:   "after: " + strconv.Quote(model.Shorten(text)) + " is not a revision",
				Remedy: "send the number of the header " + api.RevisionHeader,
			}
		}
		after = &n
	}
	return after, min(wait, api.MaxWait-time.Second), nil // answer before the request's own timeout
}

func (h *handler) status(v *model.View) api.Status {
	s := answer.Summary(v, h.opts.Version, model.Problems(h.problems(v)))
	now := h.opts.Now()
	if !v.Started.IsZero() {
		s.Uptime = now.Sub(v.Started).Seconds()
	}
	if answer.Observed(v) {
		s.Age = now.Sub(v.Snapshot.Time).Seconds()
	}
	return s
}

func (h *handler) problems(v *model.View) []model.Problem {
	return answer.Diagnose(v, h.opts.Examine, h.opts.Now(), h.opts.Stale)
}

func (h *handler) explain(w http.ResponseWriter, r *http.Request) {
	v := h.awaitObserved(w, r)
	if v == nil {
		return
	}
	e, err := answer.Explain(v, r.PathValue("vm"))
	if err != nil {
		writeError(w, http.StatusNotFound, err)
		return
	}
	if h.opts.History != nil {
		e.Events = h.opts.History.Events(answer.EventsQuery{VM: e.VM.ID, Last: eventsExplained}).Lines
	}
	writeJSON(w, http.StatusOK, e)
}

// eventsExplained is how many events of a VM an explanation has.
const eventsExplained = 5

// health answers 200 while observations of the host are recent.
func (h *handler) health(w http.ResponseWriter, _ *http.Request) {
	v := h.view()
	if !answer.Observed(v) {
		notObserved(w)
		return
	}
	if age := h.opts.Now().Sub(v.Snapshot.Time); h.opts.Stale > 0 && age > h.opts.Stale {
		writeError(w, http.StatusServiceUnavailable, &api.Error{
			Text:   fmt.Sprintf("the last observation of the host is %.0f s old", age.Seconds()),
			Remedy: "see `sluice doctor`",
		})
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func notFound(w http.ResponseWriter, r *http.Request) {
	writeError(w, http.StatusNotFound, &api.Error{
		Text:   "nothing answers " + r.Method + " " + strconv.Quote(model.Shorten(r.URL.Path)),
		Remedy: "see docs/api.md and `sluice help` for what is available",
	})
}

func writeError(w http.ResponseWriter, status int, err error) {
	var r *api.Error
	if !errors.As(err, &r) {
		r = &api.Error{Text: err.Error(), Remedy: "see the daemon's log: journalctl -u sluice"}
	}
	writeJSON(w, status, r)
}

// writeJSON answers with one JSON value.
func writeJSON(w http.ResponseWriter, status int, value any) { writeText(w, status, encode(value)) }

// encode returns a value as one line of JSON, nil if it cannot be encoded (NaN or infinity).
func encode(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return append(data, '\n')
}

// writeText answers with the result of encode. nil is an internal error, and must not look like an empty answer.
func writeText(w http.ResponseWriter, status int, text []byte) {
	if text == nil {
		status = http.StatusInternalServerError
		text = encode(&api.Error{Text: "the answer cannot be written as JSON", Remedy: "report this as a bug"})
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may have disconnected
}
