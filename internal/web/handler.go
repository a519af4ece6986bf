package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"sluice/internal/model"
)

// handler answers requests.
type handler struct {
	opts Options
}

// NewHandler serves the API, the metrics and the health check. Whether a request may
// change anything depends on its connection: see withPeer.
func NewHandler(o Options) http.Handler {
	h := &handler{opts: o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", h.read(func(v *model.View) any { return Summary(v, o.Version, len(h.problems(v))) }))
	mux.HandleFunc("GET /v1/vms", h.read(func(v *model.View) any { return VMs(v) }))
	mux.HandleFunc("GET /v1/vfs", h.read(func(v *model.View) any { return VFs(v) }))
	mux.HandleFunc("GET /v1/plan", h.read(func(v *model.View) any { return Planned(v) }))
	mux.HandleFunc("GET /v1/fsck", h.read(func(v *model.View) any { return Checked(v) }))
	mux.HandleFunc("GET /v1/doctor", h.read(func(v *model.View) any { return Doctor{Problems: h.problems(v)} }))
	mux.HandleFunc("GET /v1/snapshot", h.read(func(v *model.View) any { return LastSeen(v) }))
	mux.HandleFunc("GET /v1/memory", h.memory)
	mux.HandleFunc("GET /v1/explain/{vm}", h.explain)
	mux.HandleFunc("GET /healthz", h.health)
	mux.Handle("GET /metrics", metricsHandler(o))
	for _, v := range []Verb{VerbPin, VerbRelease, VerbUnpin} {
		mux.HandleFunc("POST /v1/"+string(v), h.change(v, true))
	}
	mux.HandleFunc("POST /v1/drain", h.change(VerbDrain, false))
	mux.HandleFunc("POST /v1/undrain", h.change(VerbUndrain, false))
	mux.HandleFunc("POST /v1/reload", h.change(VerbReload, false))
	mux.HandleFunc("POST /v1/fsck/repair", h.change(VerbRepair, false))
	mux.HandleFunc("/", notFound)
	return bounded(mux)
}

// maxBody bounds a request: the longest is one VM's name.
const maxBody = 4 << 10

// bounded limits what any request may send and how long it may take.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), commandTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// read answers with what a pure function makes of the latest View.
func (h *handler) read(answer func(*model.View) any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, answer(h.opts.Backend.View()))
	}
}

func (h *handler) problems(v *model.View) []model.Problem {
	return Diagnose(v, h.opts.Examine, h.opts.Now(), h.opts.Stale)
}

func (h *handler) explain(w http.ResponseWriter, r *http.Request) {
	e, err := Explain(h.opts.Backend.View(), r.PathValue("vm"))
	if err != nil {
		writeError(w, http.StatusNotFound, err)
		return
	}
	writeJSON(w, http.StatusOK, e)
}

// health is 200 while the daemon looks at the host.
func (h *handler) health(w http.ResponseWriter, _ *http.Request) {
	v := h.opts.Backend.View()
	if !Looked(v) {
		writeError(w, http.StatusServiceUnavailable, &Refusal{Text: "the host has not been looked at yet", Remedy: "wait a moment"})
		return
	}
	if age := h.opts.Now().Sub(v.Snapshot.Time); h.opts.Stale > 0 && age > h.opts.Stale {
		writeError(w, http.StatusServiceUnavailable, &Refusal{Text: fmt.Sprintf("the last look at the host is %.0f s old", age.Seconds()), Remedy: "see `sluice doctor`"})
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// change passes a command on, if the peer may and the body is right.
func (h *handler) change(verb Verb, needsVM bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who := peerOf(r.Context())
		if !who.mayChange() {
			h.opts.Logger.Warn("refused a change", "verb", verb, "by", who.String())
			writeError(w, http.StatusForbidden, &Refusal{Text: "only root may " + string(verb) + ", over the unix socket", Remedy: "run the command as root on this host"})
			return
		}
		c, err := h.command(verb, needsVM, r)
		if err != nil {
			writeError(w, statusOf(err, http.StatusBadRequest), err)
			return
		}
		c.By = who.String()
		h.do(r.Context(), w, c)
	}
}

func (h *handler) do(ctx context.Context, w http.ResponseWriter, c Command) {
	res, err := h.opts.Backend.Do(ctx, c)
	log := h.opts.Logger.With("verb", c.Verb, "vm", c.VMName, "uuid", c.VM, "by", c.By)
	if err != nil {
		log.Warn("command failed", "error", err)
		writeError(w, statusOf(err, http.StatusInternalServerError), err)
		return
	}
	log.Info("command accepted", "result", res.Text)
	writeJSON(w, http.StatusOK, res)
}

// ask is the body of a command.
type ask struct {
	VM string `json:"vm"` // name or UUID
}

// command reads the body and finds the VM.
func (h *handler) command(verb Verb, needsVM bool, r *http.Request) (Command, error) {
	var body ask
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(&body)
	if errors.Is(err, io.EOF) && !needsVM {
		err = nil
	}
	if err == nil && d.More() {
		err = errors.New("more than one value")
	}
	switch {
	case err != nil:
		return Command{}, &Refusal{Text: "the request's body is not right: " + err.Error(), Remedy: `send JSON such as {"vm": "web-1"}, or nothing where no VM is meant`}
	case needsVM && body.VM == "":
		return Command{}, &Refusal{Text: "no VM given", Remedy: `send {"vm": "its name or UUID"}`}
	case !needsVM && body.VM != "":
		return Command{}, &Refusal{Text: string(verb) + " concerns the whole host, not one VM", Remedy: "leave the VM out"}
	}
	c := Command{Verb: verb}
	if needsVM {
		return h.target(c, body.VM)
	}
	return c, nil
}

// target fills in the VM. A VM that is not here can still be unpinned.
func (h *handler) target(c Command, ref string) (Command, error) {
	v := h.opts.Backend.View()
	vm, err := Find(v, ref)
	switch {
	case err == nil:
		c.VM, c.VMName = vm.ID, vm.Name
		return c, nil
	case c.Verb == VerbUnpin && ruledByHand(v, ref):
		c.VMName = ref
		return c, nil
	}
	return c, err
}

// ruledByHand says whether a wish set by hand names exactly this VM.
func ruledByHand(v *model.View, ref string) bool {
	if v == nil {
		return false
	}
	for _, r := range v.Rules.VMs {
		if r.ByHand && r.Match == ref {
			return true
		}
	}
	return false
}

// statusOf is the status for an error: what a person can mend is a conflict, not a fault.
func statusOf(err error, other int) int {
	var r *Refusal
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	case errors.As(err, &r) && other == http.StatusInternalServerError:
		return http.StatusConflict
	}
	return other
}

func notFound(w http.ResponseWriter, r *http.Request) {
	writeError(w, http.StatusNotFound, &Refusal{Text: "nothing answers " + r.Method + " " + quote(r.URL.Path), Remedy: "see docs/metrics.md and `sluice help` for what there is"})
}

func writeError(w http.ResponseWriter, status int, err error) {
	var r *Refusal
	if !errors.As(err, &r) {
		r = &Refusal{Text: err.Error(), Remedy: "see the daemon's log: journalctl -u sluice"}
	}
	writeJSON(w, status, r)
}

// writeJSON answers with one JSON value. A value that cannot be encoded (a figure that
// is no number) is an error of ours: it must not look like an empty answer.
func writeJSON(w http.ResponseWriter, status int, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		status = http.StatusInternalServerError
		data = []byte(`{"error":"the answer cannot be written as JSON","remedy":"report this as a bug"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // the reader may be gone: nothing to be done about it
}
