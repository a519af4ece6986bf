package server

import (
	"context"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// Backend is the daemon as seen by this package.
type Backend interface {
	// View returns the latest View, which is never changed afterwards, and a channel that is closed when there is a newer
	// one. It must not block.
	View() (v *model.View, newer <-chan struct{})
	// Do executes a command or rejects it; an *api.Error tells the caller what to do. It returns when the command is
	// accepted, not when VFs have moved.
	Do(ctx context.Context, c Command) (api.Result, error)
	// SetClaims replaces the claims of the fleet, which are sorted, and reports whether they differ from those before.
	SetClaims(ctx context.Context, claims []model.Claim) (res api.Result, changed bool, err error)
	// SetPorts replaces the ports of Neutron, which are sorted, says what the host makes of them, and whether they differ from those before.
	SetPorts(ctx context.Context, ports []model.Port) (res api.HostPorts, changed bool, err error)
	// Memory returns the state of the loop between two ticks.
	Memory(ctx context.Context) (answer.Memory, error)
}

// Command is one request to change something.
type Command struct {
	Verb   api.Verb      `json:"verb"`
	VM     model.VMID    `json:"uuid,omitempty"` // "" if unpin names a VM that is not on the host now
	VMName string        `json:"domain,omitempty"`
	User   string        `json:"user,omitempty"` // who asked
	UID    int           `json:"uid,omitempty"`
	Reason string        `json:"reason,omitempty"`
	For    time.Duration `json:"for,omitempty"` // at most one of For and Until is set
	Until  time.Time     `json:"until,omitzero"`
	NIC    string        `json:"nic,omitempty"` // of SLAs: shell pattern on alias, MAC or network; "": every NIC
	SLA    model.SLA     `json:"sla,omitzero"`
}
