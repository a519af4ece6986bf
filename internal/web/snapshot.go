package web

import (
	"context"

	"sluice/internal/model"
)

// Recent is what a recording needs of the daemon: what it saw last, what it was asked
// to do, and the moves that have ended, without their steps.
type Recent struct {
	Snapshot *model.Snapshot    `json:"snapshot"`
	Rules    model.Rules        `json:"rules"`
	Ended    []model.MoveStatus `json:"ended"` // newest first
}

// LastSeen picks it from a View.
func LastSeen(v *model.View) Recent {
	r := Recent{Snapshot: v.Snapshot, Rules: v.Rules, Ended: append([]model.MoveStatus{}, v.Recent...)}
	for i := range r.Ended {
		r.Ended[i].Move.Steps = nil
	}
	return r
}

// LastSeen asks for what the daemon saw last.
func (c *Client) LastSeen(ctx context.Context) (Recent, error) {
	return get[Recent](ctx, c, "snapshot")
}
