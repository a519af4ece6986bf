package server

import (
	"context"

	"sluice/api/v1"
)

// Preparer changes definitions of VMs so that they can have VFs. Errors that the user can fix are *api.Error or contain the
// remedy.
type Preparer interface {
	Prepare(ctx context.Context, r api.Prepare) ([]api.Prepared, error)
}

func (h *handler) prepare(ctx context.Context, b api.Prepare, _ peer) (any, error) {
	switch {
	case b.All == (b.VM != ""):
		return nil, &api.Error{Text: "give either one VM or all", Remedy: `send {"vm": "its name or UUID"}, or {"all": true, "dry_run": true}`}
	case b.All && !b.DryRun:
		return nil, &api.Error{Text: "all VMs together can only be checked", Remedy: "send dry_run, then change the VMs you want, one by one"}
	}
	return h.opts.Preparer.Prepare(ctx, b)
}
