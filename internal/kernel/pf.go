package kernel

import (
	"context"

	"sluice/internal/model"
)

// PFInfo is a PF with its VFs, and who uses them on the host. Owner, Holder and
// InGuest of the VFs and Managed of the PF are not the kernel's to know and stay zero.
type PFInfo struct {
	model.PF
	Uses []VFUse // Uses[i] is about VFs[i]
}

// VFUse says what the host itself does with a VF.
type VFUse struct {
	HostNetdev   string // the VF's netdev in this network namespace, "" for none
	HostNetdevUp bool   // that netdev is administratively up
	OtherNetns   bool   // a network driver is bound, but its netdev is not in this namespace
}

// PFs lists the PFs that have or may have VFs, sorted by name, with their VFs. Devices
// that vanish while being read are left out.
func (h *Host) PFs(ctx context.Context) ([]PFInfo, error) { return nil, errTodo }

// VFCounters returns the counters of a PF's VFs by VF index; rx is what the VF
// received. They mean something only if Caps.VFCounters is Yes: drivers without
// them report zeros.
func (h *Host) VFCounters(ctx context.Context, pf string) (map[int]Counters, error) {
	return nil, errTodo
}
