package server

import (
	"context"
	"encoding/json"
	"net/http"

	"sluice/api/v1"
)

// Preparer changes definitions of VMs so that they can have VFs. Errors that the user can fix are *api.Error or contain the
// remedy.
type Preparer interface {
	Prepare(ctx context.Context, r api.Prepare) ([]api.Prepared, error)
}

func (h *handler) prepareRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/prepare", h.answer(task{
		there: h.opts.Preparer != nil, missing: api.Error{
			Text:   "there are no definitions of VMs here (a simulated host has none)",
			Remedy: "use this where sluiced runs with libvirt",
		},
		path: "prepare", doing: "change the definitions of VMs", needs: RoleOwn,
	}, h.prepare))
}

func (h *handler) prepare(ctx context.Context, d *json.Decoder, _ peer) (any, error) {
	var b api.Prepare
	if err := decode(d, &b); err != nil {
		return nil, err
	}
	switch {
	case b.All == (b.VM != ""):
		return nil, &api.Error{Text: "one VM, or all", Remedy: `send {"vm": "its name or UUID"}, or {"all": true, "dry_run": true}`}
	case b.All && !b.DryRun:
		return nil, &api.Error{Text: "all VMs can only be looked at", Remedy: "send dry_run, then change those that you want to, one by one"}
	}
	return h.opts.Preparer.Prepare(ctx, b)
}
