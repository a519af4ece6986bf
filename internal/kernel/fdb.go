package kernel

import (
	"context"

	"sluice/internal/model"
)

// FDBEntry is a static entry of a bridge.
type FDBEntry struct {
	MAC    model.MAC
	Port   string // bridge port
	Bridge string
	VLAN   int // 0: the bridge does not filter VLANs, or the entry is for untagged frames
}

// FDB returns the static bridge entries of all bridges: the port each MAC is pinned to.
// A MAC that is pinned to different ports (on several VLANs or bridges) shows the
// first by name; FDBEntries has them all.
func (h *Host) FDB(ctx context.Context) (map[model.MAC]string, error) { return nil, errTodo }

// FDBEntries returns the static bridge entries of all bridges, sorted by MAC, port and VLAN.
func (h *Host) FDBEntries(ctx context.Context) ([]FDBEntry, error) { return nil, errTodo }

// PinFDB makes a static bridge entry for mac on port, moving it there from wherever it
// was in port's bridge. vlan counts only if the bridge filters VLANs; 0 means every
// VLAN of the port.
func (h *Host) PinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error {
	return errTodo
}

// UnpinFDB removes the static bridge entry for mac on port. That there is none is no error.
func (h *Host) UnpinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error {
	return errTodo
}

// AddSelf adds a unicast filter for mac to the PF itself, so that frames for it from VFs
// and the wire reach the host. Drivers with few filters refuse with unix.ENOMEM or unix.ENOSPC,
// others with unix.EOPNOTSUPP.
func (h *Host) AddSelf(ctx context.Context, pf string, mac model.MAC) error { return errTodo }

// DelSelf removes such a filter. That there is none is no error.
func (h *Host) DelSelf(ctx context.Context, pf string, mac model.MAC) error { return errTodo }

// Selfs lists the PF's own unicast filters, sorted.
func (h *Host) Selfs(ctx context.Context, pf string) ([]model.MAC, error) { return nil, errTodo }

// PreparePort turns learning off on the PF's bridge port, so that frames that come back
// from the wire do not teach the bridge that a guest lives there.
func (h *Host) PreparePort(ctx context.Context, pf string) error { return errTodo }
