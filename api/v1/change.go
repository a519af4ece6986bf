package api

import "time"

// Verb names a change: POST /v1/PATH with its Path, a Request as the body and a Result as the answer.
type Verb string

// The verbs. Those for which NeedsVM is true apply to one VM.
const (
	VerbPin     Verb = "pin"     // always give this VM a VF, until unpin
	VerbRelease Verb = "release" // give this VM no VF, until unpin
	VerbUnpin   Verb = "unpin"   // let the policy decide again after pin or release
	VerbDrain   Verb = "drain"   // take all VFs back, and assign none
	VerbUndrain Verb = "undrain" // assign VFs again
	VerbRepair  Verb = "repair"  // repair what fsck found
	VerbReload  Verb = "reload"  // read the configuration again

	VerbSetSLA   Verb = "sla"       // set what this VM's NICs are guaranteed and allowed
	VerbClearSLA Verb = "clear-sla" // drop what was set at run time
)

// Path is the path of the verb below /v1/.
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

// NeedsVM reports whether the verb applies to one VM.
func (v Verb) NeedsVM() bool {
	return v == VerbPin || v == VerbRelease || v == VerbUnpin || v == VerbSetSLA || v == VerbClearSLA
}

// Overrides reports whether the verb starts an override, which takes a reason and an end.
func (v Verb) Overrides() bool {
	return v == VerbPin || v == VerbRelease || v == VerbDrain || v == VerbSetSLA
}

// Request is the body of a change. Reason, For and Until apply to verbs that start an override. At most one of For and
// Until may be given; without either the override has no end.
type Request struct {
	VM     string    `json:"vm,omitempty"`          // name or UUID
	NIC    string    `json:"nic,omitempty"`         // for SetSLA and ClearSLA: shell pattern on alias, MAC or network; "": every NIC
	SLA    *SLA      `json:"sla,omitempty"`         // required by SetSLA: replaces what was set before for the same NIC pattern
	Reason string    `json:"reason,omitempty"`      // free text; at most MaxReason bytes on one line
	For    float64   `json:"for_seconds,omitempty"` // the override ends after this time
	Until  time.Time `json:"until,omitzero"`        // the override ends at this time
}

// MaxReason is the maximum length of a reason in bytes.
const MaxReason = 256

// Result is the daemon's answer to a change. It is sent when the change is accepted, not when VFs have moved.
type Result struct {
	Text     string   `json:"text"`              // one sentence
	Details  []string `json:"details,omitempty"` // its consequences
	Revision uint64   `json:"revision"`          // of the last published state before the change
	// Obstacle is what prevents a pin or release that was accepted from having its effect now; absent: nothing known.
	Obstacle string `json:"obstacle,omitempty"`
}

// Override is what a user requested at run time: GET /v1/overrides. It takes precedence over sluice.yaml, survives a
// restart of the daemon, and holds until it is withdrawn or expires.
type Override struct {
	Kind   Verb      `json:"kind"` // VerbPin, VerbRelease, VerbDrain or VerbSetSLA
	ID     string    `json:"uuid,omitempty"`
	Name   string    `json:"domain,omitempty"`
	By     string    `json:"by"`  // the user's name
	UID    int       `json:"uid"` // -1: unknown
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"` // zero: no end
	NIC    string    `json:"nic,omitempty"`  // of VerbSetSLA: the NICs it applies to; "": all
	SLA    *SLA      `json:"sla,omitempty"`  // of VerbSetSLA
}
