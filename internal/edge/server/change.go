package server

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// change passes a command to the backend if the peer is authorized and the body is valid.
func (h *handler) change(verb api.Verb) http.HandlerFunc {
	needed := RoleOperate
	if verb == api.VerbReload {
		needed = RoleOwn
	}
	return func(w http.ResponseWriter, r *http.Request) {
		who := peerOf(r.Context())
		if !h.authorize(w, who, string(verb), phrase(verb), needed) {
			return
		}
		c, err := h.command(verb, r)
		switch {
		case errors.Is(err, errNotObserved):
			notObserved(w)
		case err != nil:
			writeError(w, http.StatusBadRequest, err)
		default:
			c.User, c.UID = who.name(), int(who.uid)
			h.do(r.Context(), w, c, who)
		}
	}
}

// authorize reports whether the peer has a role. If not, it answers the request; phrase says in a sentence what was asked.
func (h *handler) authorize(w http.ResponseWriter, who peer, request, phrase string, needed Role) bool {
	if h.roles.allow(who, needed) {
		return true
	}
	h.logRefusal(request, who)
	refusal := &api.Error{Text: "nobody may " + phrase + " over TCP", Remedy: "use the unix socket on the host itself"}
	if who.local {
		list := map[Role]string{RoleOperate: "api.operate", RoleOwn: "api.own", RoleClaims: "api.claims", RolePorts: "api.ports"}[needed]
		refusal = &api.Error{
			Text:   who.name() + " may not " + phrase,
			Remedy: "run the command as root, or list the user in " + list + " of sluice.yaml",
		}
	}
	writeError(w, http.StatusForbidden, refusal)
	return false
}

// refusalsEvery limits how often refusals are logged: a client with read access must not be able to fill the log or make
// systemd's rate limiting drop other messages.
const refusalsEvery = 10 * time.Second

// refusals counts refusals that were not logged.
type refusals struct {
	mu     sync.Mutex
	logged time.Time
	missed int
}

func (h *handler) logRefusal(request string, who peer) {
	r := &h.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.logged) < refusalsEvery {
		r.missed++
		return
	}
	h.opts.Logger.Warn("refused a change", "verb", request, "by", who.String(), "not_logged", r.missed)
	r.logged, r.missed = time.Now(), 0
}

func (h *handler) do(ctx context.Context, w http.ResponseWriter, c Command, who peer) {
	before := h.view().Revision
	res, err := h.opts.Backend.Do(ctx, c)
	log := h.opts.Logger.With("verb", c.Verb, "vm", c.VMName, "uuid", c.VM, "by", who.String(), "reason", c.Reason)
	if err != nil {
		log.Warn("command failed", "error", err)
		writeError(w, statusOf(err, http.StatusInternalServerError), err)
		return
	}
	log.Info("command accepted", "result", res.Text)
	res.Revision = before
	writeJSON(w, http.StatusOK, res)
}

// command parses the body and looks the VM up.
func (h *handler) command(verb api.Verb, r *http.Request) (Command, error) {
	needsVM := verb.NeedsVM()
	var body api.Request
	err := decode(r.Body, &body)
	if errors.Is(err, io.EOF) && !needsVM {
		err = nil
	}
	switch {
	case err != nil:
		return Command{}, badBody(err, `send JSON such as {"vm": "web-1"}, or nothing if the command applies to the whole host`)
	case needsVM && body.VM == "":
		return Command{}, &api.Error{Text: "no VM given", Remedy: `send {"vm": "its name or UUID"}`}
	case !needsVM && body.VM != "":
		return Command{}, &api.Error{Text: string(verb) + " applies to the whole host, not to one VM", Remedy: "leave the VM out"}
	}
	c := Command{Verb: verb, Reason: body.Reason, For: seconds(body.For), Until: body.Until}
	if err := h.checkOverride(verb, &body); err != nil {
		return Command{}, err
	}
	if err := readSLA(verb, &body, &c); err != nil {
		return Command{}, err
	}
	if needsVM {
		return h.target(c, body.VM)
	}
	return c, nil
}

// maxOverride bounds for_seconds; an override without an end does not need it.
const maxOverride = 10 * 365 * 24 * time.Hour

// seconds converts for_seconds to a duration, capped at maxOverride; checkOverride reports values out of range.
func seconds(s float64) time.Duration {
	return time.Duration(math.Min(s, maxOverride.Seconds()) * float64(time.Second))
}

// checkOverride validates reason and end of an override.
func (h *handler) checkOverride(verb api.Verb, b *api.Request) error {
	if b.Reason == "" && b.For == 0 && b.Until.IsZero() {
		return nil
	}
	switch {
	case !verb.Overrides():
		return &api.Error{Text: phrase(verb) + " takes neither a reason nor an end", Remedy: "leave them out"}
	case len(b.Reason) > api.MaxReason:
		return &api.Error{Text: "the reason is too long", Remedy: "write at most 256 bytes"}
	case !utf8.ValidString(b.Reason) || strings.ContainsFunc(b.Reason, func(r rune) bool { return !unicode.IsPrint(r) }):
		return &api.Error{Text: "the reason contains unprintable characters", Remedy: "write plain text on one line"}
	case b.For != 0 && !b.Until.IsZero():
		return &api.Error{Text: "both for_seconds and until are given", Remedy: "leave one out"}
	case b.For != 0 && (b.For < 1 || b.For > maxOverride.Seconds()):
		return &api.Error{Text: "for_seconds is out of range", Remedy: "write from one second to ten years, or leave it out for no end"}
	case !b.Until.IsZero() && !b.Until.After(h.opts.Now()):
		return &api.Error{
			Text:   "until is not in the future: it is now " + h.opts.Now().Format(time.DateTime+" MST"),
			Remedy: "write a future time, or leave it out for no end",
		}
	}
	return nil
}

// target fills in the VM. An override of a VM that is not on the host can still be withdrawn.
func (h *handler) target(c Command, ref string) (Command, error) {
	v := h.view()
	if c.Verb == api.VerbUnpin || c.Verb == api.VerbClearSLA {
		if o := overrideNamed(v, c.Verb, ref); o != nil {
			c.VM, c.VMName = o.VM, o.VMName
			return c, nil
		}
	}
	if !answer.Observed(v) {
		return c, errNotObserved
	}
	vm, err := answer.Find(v, ref)
	if err == nil {
		c.VM, c.VMName = vm.ID, vm.Name
	}
	return c, err
}

// overrideNamed returns an override of exactly this VM (name or UUID) that the verb withdraws, or nil.
func overrideNamed(v *model.View, verb api.Verb, ref string) *model.Override {
	for i := range v.Overrides {
		o := &v.Overrides[i]
		if vm := (model.VM{ID: o.VM, Name: o.VMName}); o.Places() == (verb == api.VerbUnpin) && o.Kind != model.OverrideDrain && vm.Names(ref) {
			return o
		}
	}
	return nil
}

// errInvalid marks an error of the request itself, which would be the same on any host.
var errInvalid = errors.New("invalid request")

// statusOf maps an error to a status: an error that the user can fix is a conflict, not an internal error.
func statusOf(err error, other int) int {
	var r *api.Error
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	case errors.Is(err, errInvalid):
		return http.StatusBadRequest
	case errors.As(err, &r) && other == http.StatusInternalServerError:
		return http.StatusConflict
	}
	return other
}
