package kernel

import (
	"context"

	"sluice/internal/model"
)

// Window is a time in which both paths to a guest receive its inbound frames.
type Window struct {
	MAC      model.MAC
	Tap      string
	PF       string
	VLAN     int  // the VF's VLAN, 0: none
	KeepSelf bool // CloseWindow leaves the PF's filter for MAC: other VFs need it to reach the tap
}

// OpenWindow makes both paths receive: a PF filter for the MAC, the bridge entry to the
// tap, and a mirror from the tap to the PF for frames that did not come from there.
// The bridge entry must succeed; what else cannot be had is told in note. Opening an
// open window checks and mends it.
func (h *Host) OpenWindow(ctx context.Context, w Window) (note string, err error) {
	return "", errTodo
}

// CloseWindow removes the mirror and, unless KeepSelf, the PF filter. The bridge entry stays
// where it is. It works for windows of an earlier process too.
func (h *Host) CloseWindow(ctx context.Context, w Window) error { return errTodo }
