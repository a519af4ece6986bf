// Package api has the types of version 1 of the daemon's JSON API, served under /v1 on its unix socket and, read-only, on
// api.listen. Go programs may import it; it depends only on the standard library.
//
// # Units
//
// Packet rates are packets per second and byte rates are bytes per second, both summed over the two directions unless
// stated otherwise; limits are bits per second. Durations are seconds, as numbers with a fraction. Times are RFC 3339; the
// zero time means unknown or not yet. Shares are from 0 to 1. CPUs are host CPUs in use. rx and tx are from the guest's
// point of view: rx is what it receives.
//
// # Versions
//
// Within version 1, fields are only added. A client must ignore fields and words (codes, kinds, states) that it does not
// know.
//
// # Waiting for changes
//
// Every answer to a GET of /v1 carries its revision in the header Sluice-Revision. With ?after=REVISION&wait=30s the answer
// is sent as soon as the revision differs from that one, or when the wait expires, as status 304 without a body.
// Intermediate revisions are skipped. A restarted daemon has other revisions and answers at once.
//
// GET /v1/snapshot and /v1/memory, which `sluice record` reads, are not part of this API: their content follows the version
// of the program.
package api

import "time"

// RevisionHeader is the header with the revision of an answer, a decimal number.
const RevisionHeader = "Sluice-Revision"

// MaxWait bounds ?wait=, so that connections of clients that are gone do not linger.
const MaxWait = 30 * time.Second

// Values of fields that programs compare.
const (
	ModeObserve = "observe" // change nothing, report what would be done
	ModeEnforce = "enforce"

	StateRunning = "running"

	MovePlug   = "plug"
	MoveUnplug = "unplug"
	MoveRepair = "repair"
)

// Error is the body of every answer that reports a failure.
type Error struct {
	Text   string `json:"error"`
	Remedy string `json:"remedy,omitempty"` // what the caller can do
}

// Error implements error.
func (e *Error) Error() string {
	if e.Remedy == "" {
		return e.Text
	}
	return e.Text + "; " + e.Remedy
}
