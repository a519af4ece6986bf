package kernel

import (
	"context"

	"sluice/internal/model"
)

// VFSettings are what SetVF sets: everything but the MAC.
type VFSettings struct {
	VLAN       int // 0: none
	SpoofCheck bool
	Trust      bool
	MaxTxRate  uint64 // bits/s, 0: no limit; the kernel takes whole Mbit/s
}

// SetVF applies settings to VF idx of a PF and reads them back. What the driver does not
// support is skipped and told in note, "" if there is nothing to tell.
func (h *Host) SetVF(ctx context.Context, pf string, idx int, s VFSettings) (note string, err error) {
	return "", errTodo
}

// SetVFMAC sets the administrative MAC of a VF and reads it back. From then on the
// NIC steers that MAC to the VF.
func (h *Host) SetVFMAC(ctx context.Context, pf string, idx int, mac model.MAC) error {
	return errTodo
}

// ClearVF removes MAC, VLAN, rates and trust from a VF, sets spoof checking on and
// reads back. What the driver refuses and its Caps do not promise is told in note.
func (h *Host) ClearVF(ctx context.Context, pf string, idx int) (note string, err error) {
	return "", errTodo
}
