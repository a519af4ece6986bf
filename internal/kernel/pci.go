package kernel

import (
	"context"

	"sluice/internal/model"
)

// BindVFIO binds a VF to vfio-pci, taking it from another driver if needed. It does
// nothing if it is bound already. Callers make sure the host does not use the VF.
func (h *Host) BindVFIO(ctx context.Context, addr model.PCIAddress) error { return errTodo }

// RestoreDriver gives a VF back to the driver the kernel chooses by itself.
func (h *Host) RestoreDriver(ctx context.Context, addr model.PCIAddress) error { return errTodo }

// DriverOpen says whether a guest driver has opened the VF: it has interrupts
// routed through vfio. Unknown when the kernel does not show interrupts.
func (h *Host) DriverOpen(ctx context.Context, addr model.PCIAddress) (model.Tri, error) {
	return model.Unknown, errTodo
}

// WaitDriver waits until DriverOpen is as asked, looking every few milliseconds. When
// ctx ends first the error wraps model.ErrGuest and the context's error.
func (h *Host) WaitDriver(ctx context.Context, addr model.PCIAddress, open bool) error {
	return errTodo
}
