package server

import (
	"context"
	"encoding/json"
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

// needs returns the minimum role for a verb.
func needs(v api.Verb) Role {
	if v == api.VerbReload {
		return RoleOwn
	}
	return RoleOperate
}

// change passes a command to the backend if the peer is authorized and the body is valid.
func (h *handler) change(verb api.Verb) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who := peerOf(r.Context())
		if !h.roles.may(who, needs(verb)) {
			h.logRefusal(verb, who)
			writeError(w, http.StatusForbidden, refused(verb, who))
			return
		}
		c, err := h.command(verb, r)
		if err != nil {
			if errors.Is(err, errNotLooked) {
				notLooked(w)
				return
			}
			writeError(w, statusOf(err, http.StatusBadRequest), err)
			return
		}
		c.User, c.UID = who.name(), int(who.uid)
		h.do(r.Context(), w, c, who)
	}
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

func (h *handler) logRefusal(verb api.Verb, who peer) {
	r := &h.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.logged) < refusalsEvery {
		r.missed++
		return
	}
	h.opts.Logger.Warn("refused a change", "verb", verb, "by", who.String(), "not_logged", r.missed)
	r.logged, r.missed = time.Now(), 0
}

func refused(verb api.Verb, who peer) error { return refusedFor(doing(verb), needs(verb), who) }

func refusedFor(doing string, needed Role, who peer) error {
	if !who.local {
		return &api.Error{Text: "nobody may " + doing + " over TCP", Remedy: "use the unix socket on the host itself"}
	}
	role := "operate"
	if needed == RoleOwn {
		role = "own"
	}
	return &api.Error{Text: who.name() + " may not " + doing, Remedy: "run the command as root, or list the user in api." + role +
		" of sluice.yaml"}
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
		return Command{}, &api.Error{
			Text:   "the request's body is not right: " + err.Error(),
			Remedy: `send JSON such as {"vm": "web-1"}, or nothing where no VM is meant`,
		}
	case needsVM && body.VM == "":
		return Command{}, &api.Error{Text: "no VM given", Remedy: `send {"vm": "its name or UUID"}`}
	case !needsVM && body.VM != "":
		return Command{}, &api.Error{Text: string(verb) + " concerns the whole host, not one VM", Remedy: "leave the VM out"}
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
		return &api.Error{Text: doing(verb) + " takes neither a reason nor an end", Remedy: "leave them out"}
	case len(b.Reason) > api.MaxReason:
		return &api.Error{Text: "the reason is too long", Remedy: "write at most 256 bytes"}
	case !utf8.ValidString(b.Reason) || strings.ContainsFunc(b.Reason, func(r rune) bool { return !unicode.IsPrint(r) }):
		return &api.Error{Text: "the reason has characters that cannot be shown", Remedy: "write plain text on one line"}
	case b.For != 0 && !b.Until.IsZero():
		return &api.Error{Text: "both for_seconds and until are given", Remedy: "leave one out"}
	case b.For != 0 && (b.For < 1 || b.For > maxOverride.Seconds()):
		return &api.Error{Text: "for_seconds is out of range", Remedy: "write from one second to ten years, or leave it out for no end"}
	case !b.Until.IsZero() && !b.Until.After(h.opts.Now()):
		return &api.Error{
			Text:   "until is not ahead: it is " + h.opts.Now().Format(time.DateTime+" MST"),
			Remedy: "write a time to come, or leave it out for no end",
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
	if !answer.Looked(v) {
		return c, errNotLooked
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

// statusOf maps an error to a status: an error that the user can fix is a conflict, not an internal error.
func statusOf(err error, other int) int {
	var r *api.Error
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
