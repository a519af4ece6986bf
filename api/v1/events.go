package api

import "time"

// Events is what has happened on the host, as far as the daemon remembers: GET /v1/events, with ?vm=NAME (or UUID) for one VM,
// ?after=ID for what is newer than an event, ?last=N for the last N lines. Without any of these the request must accept
// application/json: otherwise it gets the stream of revisions.
type Events struct {
	Now    time.Time `json:"now"`            // of the last observation
	Newest uint64    `json:"newest"`         // ID of the last event, whatever was asked for
	Lines  []Event   `json:"events"`         // oldest first
	More   bool      `json:"more,omitempty"` // ?last= left out older lines
}

// Event is something that happened, or several things of one kind that one cause brought about at one time.
type Event struct {
	ID    uint64    `json:"id"` // of the last of them; counted from 1
	From  time.Time `json:"from"`
	To    time.Time `json:"to"` // equal to From if it is one
	Kind  string    `json:"kind"`
	Text  string    `json:"text"`            // one sentence with its cause, without a final full stop
	Alarm bool      `json:"alarm,omitempty"` // it is bad for somebody
	Count int       `json:"count"`
	Cause *Cause    `json:"cause,omitempty"` // of the first of them
	// VMs are those that it happened to, in order of time.
	VMs []EventVM `json:"vms,omitempty"`
}

// EventVM is a VM's part in an Event.
type EventVM struct {
	VM   string    `json:"domain"`
	ID   string    `json:"uuid"`
	VF   string    `json:"vf,omitempty"`
	At   time.Time `json:"at"`
	Text string    `json:"text"`           // one sentence with its cause
	Move uint64    `json:"move,omitempty"` // ID of the MoveRecord
}
