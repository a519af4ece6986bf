package server

import (
	"context"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// Backend is the daemon as this package sees it.
type Backend interface {
	// View is the latest picture, never changed once returned, and a channel that is closed
	// when there is a newer one. It must not block.
	View() (v *model.View, newer <-chan struct{})
	// Do carries out a command or refuses it; an *api.Error tells the caller what to do.
	// It returns when the command is accepted, not when VFs have moved.
	Do(ctx context.Context, c Command) (api.Result, error)
	// Memory is what the loop knows, between two ticks.
	Memory(ctx context.Context) (answer.Memory, error)
}

// Command is one thing a person asks of the daemon.
type Command struct {
	Verb   api.Verb      `json:"verb"`
	VM     model.VMID    `json:"uuid,omitempty"` // "" where unpin names a VM that is not there now
	VMName string        `json:"domain,omitempty"`
	User   string        `json:"user,omitempty"` // who asked
	UID    int           `json:"uid,omitempty"`
	Reason string        `json:"reason,omitempty"`
	For    time.Duration `json:"for,omitempty"` // at most one of For and Until is set
	Until  time.Time     `json:"until,omitzero"`
	NIC    string        `json:"nic,omitempty"` // of SLAs: shell pattern on alias, MAC or network; "": each NIC
	SLA    model.SLA     `json:"sla,omitzero"`
}
