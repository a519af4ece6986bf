package answer

import (
	"encoding/json"
	"time"

	"sluice/internal/model"
)

// Recent is what a recording needs of the daemon: what it saw last, what it was asked
// to do, and the moves that have ended, without their steps.
type Recent struct {
	Snapshot *model.Snapshot    `json:"snapshot"`
	Rules    model.Rules        `json:"rules"`
	Decided  time.Time          `json:"decided"` // when it decided on the Snapshot
	Ended    []model.MoveStatus `json:"ended"`   // newest first
}

// LastSeen picks it from a View.
func LastSeen(v *model.View) Recent {
	r := Recent{Snapshot: v.Snapshot, Rules: v.Rules, Ended: append([]model.MoveStatus{}, v.Recent...)}
	if v.Target != nil {
		r.Decided = v.Target.Time
	}
	for i := range r.Ended {
		r.Ended[i].Move.Steps, r.Ended[i].Times = nil, nil
	}
	return r
}

// Memory is what the daemon's loop knows beside its rules and Snapshot, for the replay of
// a recording to begin with.
type Memory struct {
	Time  time.Time       `json:"time"` // of the last Snapshot decided on
	Busy  int             `json:"busy"` // moves under way, which are not in it
	State json.RawMessage `json:"state"`
}
