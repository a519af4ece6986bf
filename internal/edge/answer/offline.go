package answer

import (
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// Offline is what `sluiced --offline` prints: the answers that a daemon would give.
type Offline struct {
	Plan   api.Plan   `json:"plan"`
	Doctor api.Doctor `json:"doctor"`
	Fsck   api.Fsck   `json:"fsck"`
}

// NewOffline builds the answers from a View that was made without a daemon.
func NewOffline(v *model.View, examine Examine) *Offline {
	return &Offline{Plan: Planned(v), Doctor: api.Doctor{Problems: Problems(Diagnose(v, examine, time.Time{}, 0))}, Fsck: Checked(v)}
}
