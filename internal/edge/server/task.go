package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"sluice/api/v1"
	"sluice/internal/model"
)

// task describes a request to a part of the daemon that is not always present.
type task struct {
	there   bool
	missing api.Error // the answer if the part is absent
	path    string    // below /v1/; "" if nothing is changed
	doing   string    // as used in a sentence
	needs   Role
}

// answer checks that the part exists and that the peer is authorized, and writes what reply returns.
func (h *handler) answer(t task, reply func(context.Context, *json.Decoder, peer) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who := peerOf(r.Context())
		switch {
		case !t.there:
			writeError(w, http.StatusNotFound, &t.missing)
			return
		case t.path != "" && !h.roles.may(who, t.needs):
			h.logRefusal(api.Verb(t.path), who)
			writeError(w, http.StatusForbidden, refusedFor(t.doing, t.needs, who))
			return
		}
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		out, err := reply(r.Context(), d, who)
		if t.path != "" {
			h.opts.Logger.Info("asked to "+t.doing, "request", t.path, "by", who.String(), "error", err)
		}
		if err != nil {
			err = forPerson(err)
			writeError(w, statusOf(err, http.StatusInternalServerError), err)
			return
		}
		writeJSON(w, http.StatusOK, out)
	}
}

// forPerson converts errors that the user can fix to *api.Error; their text contains the remedy.
func forPerson(err error) error {
	switch {
	case errors.Is(err, model.ErrPermanent):
		return &api.Error{Text: strings.ReplaceAll(err.Error(), model.ErrPermanent.Error()+": ", "")}
	case errors.Is(err, model.ErrGone):
		return &api.Error{Text: err.Error(), Remedy: "see which VMs there are: virsh list --all"}
	}
	return err
}

// decode parses the body of a request.
func decode(d *json.Decoder, into any) error {
	err := d.Decode(into)
	if err == nil && d.More() {
		err = errors.New("more than one value")
	}
	if err != nil {
		return &api.Error{Text: "the request's body is not right: " + err.Error(), Remedy: "see docs/api.md for what it may have"}
	}
	return nil
}
