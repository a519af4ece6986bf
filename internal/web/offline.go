package web

import (
	"time"

	"sluice/internal/model"
)

// Offline is what `sluiced --offline` prints: the answers of the daemon that it would be.
type Offline struct {
	Plan   Plan   `json:"plan"`
	Doctor Doctor `json:"doctor"`
	Fsck   Fsck   `json:"fsck"`
}

// LookedOffline answers from a View that no daemon made.
func LookedOffline(v *model.View, examine Examine) *Offline {
	return &Offline{Plan: Planned(v), Doctor: Doctor{Problems: Diagnose(v, examine, time.Time{}, 0)}, Fsck: Checked(v)}
}
