// Package api has the types of the daemon's JSON API, version 1, which is served under /v1
// on its unix socket and, for reading only, on api.listen. Programs in Go may import it;
// it depends on nothing but the standard library.
//
// # Units
//
// Rates of packets are packets a second, rates of bytes are bytes a second (both summed
// over the two directions where not said otherwise), limits are bits a second. Durations
// are seconds, as numbers with a fraction. Times are RFC 3339; the zero time means not
// known or not yet. Shares are from 0 to 1. CPUs are host CPUs in use. rx and tx are the
// guest's: rx is what it receives.
//
// # Versions
//
// Within version 1 fields are only added. A reader must pass over fields and words (of
// codes, kinds, states) that it does not know.
//
// # Waiting for news
//
// Every answer to a GET of /v1 carries its revision in the header Sluice-Revision. With
// ?after=REVISION&wait=30s the answer comes as soon as there is another revision than
// that, or after the wait as status 304 without a body. Revisions in between are passed
// over. A daemon that was started anew has other revisions and answers at once.
//
// GET /v1/snapshot and /v1/memory, which `sluice record` reads, are not part of this:
// their content follows the version of the program.
package api

import "time"

// RevisionHeader is the header with the revision of an answer, a decimal number.
const RevisionHeader = "Sluice-Revision"

// MaxWait bounds ?wait=, so that a connection of somebody who is gone does not stay.
const MaxWait = 30 * time.Second

// Words of fields that programs compare.
const (
	ModeObserve = "observe" // changes nothing, says what it would do
	ModeEnforce = "enforce"

	StateRunning = "running"

	MovePlug   = "plug"
	MoveUnplug = "unplug"
	MoveRepair = "repair"
)

// Error is the body of every answer that is no success.
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
