package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"sluice/api/v1"
	"sluice/internal/model"
)

// task is a change by a part of the daemon that is not always present.
type task struct {
	present bool
	absent  api.Error // the answer if the part is absent
	path    string    // below /v1/
	phrase  string    // as used in a sentence
	needs   Role
}

func (h *handler) taskRoutes(mux *http.ServeMux) {
	vpf := func(path string, needs Role) task {
		return task{
			present: h.opts.VirtualPFs != nil,
			absent:  api.Error{Text: "there are no virtual PFs here", Remedy: "they need sluiced on a host with libvirt"},
			path:    path, phrase: "change virtual PFs", needs: needs,
		}
	}
	perform(h, mux, vpf("vpf/define", RoleOwn), h.defineVPF) // define and undefine change domains in libvirt
	perform(h, mux, vpf("vpf/undefine", RoleOwn), h.undefineVPF)
	perform(h, mux, vpf("vpf/set", RoleOperate), h.setVPF)
	perform(h, mux, task{
		present: h.opts.Preparer != nil,
		absent: api.Error{
			Text:   "there are no VM definitions here (a simulated host has none)",
			Remedy: "use this where sluiced runs with libvirt",
		},
		path: "prepare", phrase: "change the definitions of VMs", needs: RoleOwn,
	}, h.prepare)
	perform(h, mux, task{
		present: h.opts.Incoming != nil,
		absent:  api.Error{Text: "no VM can migrate in here", Remedy: "this needs sluiced on a host with libvirt"},
		path:    "incoming", phrase: "get VFs for a VM that migrates in", needs: RoleOwn,
	}, h.incoming)
}

// perform serves POST /v1/PATH of a task: it checks that the part exists and that the peer is authorized, and answers with
// what do returns for the body of the request.
func perform[B any](h *handler, mux *http.ServeMux, t task, do func(context.Context, B, peer) (any, error)) {
	mux.HandleFunc("POST /v1/"+t.path, func(w http.ResponseWriter, r *http.Request) {
		who := peerOf(r.Context())
		if !t.present {
			writeError(w, http.StatusNotFound, &t.absent)
			return
		}
		if !h.authorize(w, who, t.path, t.phrase, t.needs) {
			return
		}
		var body B
		if err := decode(r.Body, &body); err != nil {
			writeError(w, statusOf(err, http.StatusBadRequest), badBody(err, "see docs/api.md for its fields"))
			return
		}
		out, err := do(r.Context(), body, who)
		h.opts.Logger.Info("request to "+t.phrase, "request", t.path, "by", who.String(), "error", err)
		if err != nil {
			err = forPerson(err)
			writeError(w, statusOf(err, http.StatusInternalServerError), err)
			return
		}
		writeJSON(w, http.StatusOK, out)
	})
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
func decode(body io.Reader, into any) error {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && d.More() {
		err = errors.New("more than one value")
	}
	return err
}

func badBody(err error, remedy string) error {
	return &api.Error{Text: "invalid request body: " + err.Error(), Remedy: remedy}
}
