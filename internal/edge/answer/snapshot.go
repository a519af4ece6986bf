package answer

import (
	"encoding/json"
	"time"

	"sluice/internal/model"
)

// Recent is what a recording needs from the daemon: the last Snapshot, the rules, and the moves that have ended, without
// their steps.
type Recent struct {
	Snapshot *model.Snapshot    `json:"snapshot"`
	Rules    model.Rules        `json:"rules"`
	Decided  time.Time          `json:"decided"` // when the daemon decided on the Snapshot
	Ended    []model.MoveStatus `json:"ended"`   // newest first
}

// LastSeen extracts Recent from a View.
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

// Memory is the loop's state besides its rules and Snapshot, from which the replay of a recording starts.
type Memory struct {
	Time  time.Time       `json:"time"` // of the last Snapshot decided on
	Busy  int             `json:"busy"` // moves under way, which State does not include
	State json.RawMessage `json:"state"`
}
