package kernel

import (
	"context"

	"sluice/internal/model"
)

// Announce broadcasts a RARP frame from mac out of the interface (a PF, or a bridge to
// reach all its ports), tagged if vlan is not 0, so that switches learn where mac is.
func (h *Host) Announce(ctx context.Context, mac model.MAC, vlan int, via string) error {
	return errTodo
}
