package api

import "time"

// Verb names a change: POST /v1/PATH with its Path. The body is a Request, the answer a Result.
type Verb string

// The verbs. Pin, Release, Unpin, SetSLA and ClearSLA need a VM.
const (
	VerbPin     Verb = "pin"     // always a VF for this VM, until unpin
	VerbRelease Verb = "release" // no VF for this VM, until unpin
	VerbUnpin   Verb = "unpin"   // the policy decides again, after pin or release
	VerbDrain   Verb = "drain"   // give up all VFs
	VerbUndrain Verb = "undrain" // hand out VFs again
	VerbRepair  Verb = "repair"  // repair what fsck found
	VerbReload  Verb = "reload"  // read the configuration again

	VerbSetSLA   Verb = "sla"       // set what this VM's NICs are guaranteed and allowed
	VerbClearSLA Verb = "clear-sla" // what was set at run time counts no more
)

// Path is the verb's below /v1/.
func (v Verb) Path() string {
	switch v {
	case VerbRepair:
		return "fsck/repair"
	case VerbSetSLA:
		return "sla/set"
	case VerbClearSLA:
		return "sla/clear"
	}
	return string(v)
}

// NeedsVM says whether the verb is about one VM.
func (v Verb) NeedsVM() bool {
	return v == VerbPin || v == VerbRelease || v == VerbUnpin || v == VerbSetSLA || v == VerbClearSLA
}

// Overrides says whether the verb begins an override, which takes a reason and an end.
func (v Verb) Overrides() bool {
	return v == VerbPin || v == VerbRelease || v == VerbDrain || v == VerbSetSLA
}

// Request is the body of a change. Reason and an end go with verbs that begin an override; of
// For and Until at most one is given, and without either the override has no end.
type Request struct {
	VM     string    `json:"vm,omitempty"`          // name or UUID
	NIC    string    `json:"nic,omitempty"`         // of SetSLA and ClearSLA: shell pattern on alias, MAC or network; "": each NIC
	SLA    *SLA      `json:"sla,omitempty"`         // of SetSLA, which needs it: replaces what was set before for the same NIC pattern
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
	Kind   Verb      `json:"kind"` // VerbPin, VerbRelease, VerbDrain or VerbSetSLA
	ID     string    `json:"uuid,omitempty"`
	Name   string    `json:"domain,omitempty"`
	By     string    `json:"by"`  // the user's name
	UID    int       `json:"uid"` // -1: not known
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"` // zero: no end
	NIC    string    `json:"nic,omitempty"`  // of VerbSetSLA: which of its NICs it is about; "": each
	SLA    *SLA      `json:"sla,omitempty"`  // of VerbSetSLA
}
