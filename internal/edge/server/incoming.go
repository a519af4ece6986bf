package server

import (
	"context"
	"encoding/json"
	"net/http"

	"sluice/api/v1"
	"sluice/internal/model"
)

// Incoming prepares VFs for a VM that migrates in.
type Incoming func(ctx context.Context, vm model.Subject, nics []model.NIC) ([]model.VFStep, error)

// incoming answers libvirt's hook on the destination host of a migration.
func (h *handler) incoming(w http.ResponseWriter, r *http.Request) {
	who := peerOf(r.Context())
	if !h.roles.may(who, RoleOwn) {
		h.logRefusal("incoming", who)
		writeError(w, http.StatusForbidden, refusedFor("ask for VFs for a VM that migrates in", RoleOwn, who))
		return
	}
	var body api.Incoming
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		writeError(w, statusOf(err, http.StatusBadRequest), &api.Error{Text: "the request's body is not right: " + err.Error()})
		return
	}
	if h.opts.Incoming == nil {
		writeError(w, http.StatusNotFound, &api.Error{Text: "nothing migrates here", Remedy: "this needs sluiced on a host with libvirt"})
		return
	}
	nics := make([]model.NIC, len(body.NICs))
	for i, n := range body.NICs {
		mac, err := model.ParseMAC(n.MAC)
		if err != nil {
			writeError(w, http.StatusBadRequest, &api.Error{Text: err.Error()})
			return
		}
		nics[i] = model.NIC{Alias: n.Alias, MAC: mac, Network: n.Network, VLAN: n.VLAN}
	}
	vfs, err := h.opts.Incoming(r.Context(), model.Subject{VM: model.VMID(body.ID), VMName: body.Name}, nics)
	h.opts.Logger.Info("asked for VFs for a VM that migrates in", "vm", body.Name, "uuid", body.ID, "by", who.String(), "vfs", len(vfs),
		"error", err)
	if err != nil {
		writeError(w, http.StatusConflict, &api.Error{
			Text:   err.Error(),
			Remedy: "release its VF where it runs and migrate it again: sluice release " + body.Name + " --for 10m --wait 1m",
		})
		return
	}
	out := make([]api.IncomingVF, len(vfs))
	for i, v := range vfs {
		out[i] = api.IncomingVF{MAC: v.MAC.String(), VF: v.ID.String(), Address: string(v.Address)}
	}
	writeJSON(w, http.StatusOK, out)
}
