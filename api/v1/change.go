package api

import "time"

// Verb names a change: POST /v1/VERB, for VerbRepair POST /v1/fsck/repair. The body is a
// Request, the answer a Result.
type Verb string

// The verbs. Pin, Release and Unpin need a VM.
const (
	VerbPin     Verb = "pin"     // always a VF for this VM, until unpin
	VerbRelease Verb = "release" // no VF for this VM, until unpin
	VerbUnpin   Verb = "unpin"   // the policy decides again, after pin or release
	VerbDrain   Verb = "drain"   // give up all VFs
	VerbUndrain Verb = "undrain" // hand out VFs again
	VerbRepair  Verb = "repair"  // repair what fsck found
	VerbReload  Verb = "reload"  // read the configuration again
)

// Overrides says whether the verb begins an override, which takes a reason and an end.
func (v Verb) Overrides() bool { return v == VerbPin || v == VerbRelease || v == VerbDrain }

// Request is the body of a change. Reason and an end go with pin, release and drain; of
// For and Until at most one is given, and without either the override has no end.
type Request struct {
	VM     string    `json:"vm,omitempty"`          // name or UUID
	Reason string    `json:"reason,omitempty"`      // why, in a person's words; at most MaxReason bytes on one line
	For    float64   `json:"for_seconds,omitempty"` // it ends by itself after this time
	Until  time.Time `json:"until,omitzero"`        // it ends by itself at this time
}

// MaxReason is how many bytes a reason may have.
const MaxReason = 256

// Result says what the daemon made of a change. It comes when the change is accepted, not
// when VFs have moved.
type Result struct {
	Text     string   `json:"text"`              // one sentence
	Details  []string `json:"details,omitempty"` // what follows from it
	Revision uint64   `json:"revision"`          // of the last picture before the change
}

// Override is what a person asked for at run time. It goes before sluice.yaml, outlasts
// a restart of the daemon, and holds until it is taken back or its end: GET /v1/overrides.
type Override struct {
	Kind   Verb      `json:"kind"` // VerbPin, VerbRelease or VerbDrain
	ID     string    `json:"uuid,omitempty"`
	Name   string    `json:"domain,omitempty"`
	By     string    `json:"by"`  // the user's name
	UID    int       `json:"uid"` // -1: not known
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"` // zero: no end
}
