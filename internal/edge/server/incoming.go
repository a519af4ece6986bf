package server

import (
	"context"
	"errors"

	"sluice/api/v1"
	"sluice/internal/model"
)

// Incoming prepares VFs for a VM that migrates in.
type Incoming func(ctx context.Context, vm model.Subject, nics []model.NIC) ([]model.VFStep, error)

// incoming answers libvirt's hook on the destination host of a migration.
func (h *handler) incoming(ctx context.Context, b api.Incoming, _ peer) (any, error) {
	nics := make([]model.NIC, len(b.NICs))
	for i, n := range b.NICs {
		mac, err := model.ParseMAC(n.MAC)
		if err != nil {
			return nil, errors.Join(errInvalid, &api.Error{Text: err.Error(), Remedy: "see docs/api.md for the fields of the request"})
		}
		nics[i] = model.NIC{Alias: n.Alias, MAC: mac, Network: n.Network, VLAN: n.VLAN}
	}
	vfs, err := h.opts.Incoming(ctx, model.Subject{VM: model.VMID(b.ID), VMName: b.Name}, nics)
	if err != nil {
		return nil, &api.Error{
			Text:   err.Error(),
			Remedy: "release its VF where it runs and migrate it again: sluice release " + b.Name + " --for 10m --wait 1m",
		}
	}
	h.opts.Logger.Info("reserved VFs for a VM that migrates in", "vm", b.Name, "uuid", b.ID, "vfs", len(vfs))
	out := make([]api.IncomingVF, len(vfs))
	for i, v := range vfs {
		out[i] = api.IncomingVF{MAC: v.MAC.String(), VF: v.ID.String(), Address: string(v.Address)}
	}
	return out, nil
}
