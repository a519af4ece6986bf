package answer

import (
	"encoding/json"
	"time"

	"sluice/internal/model"
)

// Recent is what a recording needs from the daemon: the last Sample, those before it that the recording lacks, and the moves that have
// ended, without their steps.
type Recent struct {
	model.Sample
	Earlier []model.Sample     `json:"earlier,omitempty"` // oldest first
	Ended   []model.MoveStatus `json:"ended"`             // newest first
}

// LastSeen extracts Recent from a View. Earlier has the Samples taken after that time which the daemon still has; none if it is zero.
func LastSeen(v *model.View, after time.Time) Recent {
	r := Recent{Sample: model.Sample{Snapshot: v.Snapshot, Rules: v.Rules}, Ended: append([]model.MoveStatus{}, v.Recent...)}
	if v.Target != nil {
		r.Decided = v.Target.Time
	}
	if n := len(v.Samples) - 1; n >= 0 {
		r.Sample = v.Samples[n]
		for _, s := range v.Samples[:n] {
			if !after.IsZero() && s.Snapshot.Time.After(after) {
				r.Earlier = append(r.Earlier, s)
			}
		}
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
