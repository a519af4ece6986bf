package api

import "time"

// MoveReport is a move: planned, under way or finished.
type MoveReport struct {
	Kind    string    `json:"kind"` // plug, unplug or repair
	VM      string    `json:"domain,omitempty"`
	ID      string    `json:"uuid,omitempty"`
	VF      string    `json:"vf"`
	Why     string    `json:"why"`             // the decision as things are: why the VM should have a VF or not
	Cause   *Cause    `json:"cause,omitempty"` // what made it change
	Steps   []string  `json:"steps,omitempty"`
	Step    int       `json:"step,omitempty"` // index of the step under way
	Try     int       `json:"try,omitempty"`
	Undoing bool      `json:"undoing,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Took    float64   `json:"took_seconds,omitempty"` // of a move that ended
	Error   string    `json:"error,omitempty"`
	// StepTimes are the steps that began, in order of start.
	StepTimes []StepTime `json:"step_times,omitempty"`
}

// Cause is what brought a move or an Event about.
type Cause struct {
	// Kind is policy, link-down, link-up, pf-gone, switch, drain, pin, release, reload, restart, sla, guest, failure, finding,
	// taker or outsider.
	Kind    string `json:"kind"`
	Text    string `json:"text"` // half a sentence
	PF      string `json:"pf,omitempty"`
	By      string `json:"by,omitempty"` // who asked for it
	Other   string `json:"other,omitempty"`
	OtherID string `json:"other_uuid,omitempty"` // the VM to which it gives way
}

// Plan is what `sluice plan` shows: GET /v1/plan.
type Plan struct {
	Mode     string       `json:"mode"`
	Policy   string       `json:"policy"`
	Observed time.Time    `json:"observed"`
	Active   []MoveReport `json:"active"`
	Pending  []MoveReport `json:"pending"`
}

// Finding is one line of `sluice fsck`.
type Finding struct {
	Code    string   `json:"code"`
	Subject string   `json:"subject"`
	Text    string   `json:"text"`
	Repair  []string `json:"repair,omitempty"` // the steps that repair it; empty if Sluice cannot repair it
	Remedy  string   `json:"remedy,omitempty"` // what the user can do, if no step repairs it
	// Repairing means that its repair is pending or under way; LastError is why the last one failed.
	Repairing bool   `json:"repairing,omitempty"`
	LastError string `json:"last_error,omitempty"`
}

// Fsck is what `sluice fsck` shows: GET /v1/fsck.
type Fsck struct {
	Observed time.Time `json:"observed"`
	Findings []Finding `json:"findings"`
}

// The results of a repair.
const (
	Repaired = "repaired"
	Failed   = "failed"
	Left     = "left alone"
	Waiting  = "still waiting"
)

// RepairReport is what `sluice fsck --repair -o json` prints: the outcome of each finding.
type RepairReport struct {
	Findings []RepairResult `json:"findings"`
}

// RepairResult is the outcome of one finding.
type RepairResult struct {
	Finding
	Result string `json:"result"` // Repaired, Failed, Left or Waiting
}

// Problem is something that prevents Sluice from working as intended.
type Problem struct {
	Subject string `json:"subject"` // a VM's name, a VF, a PF, or "" for the host
	Text    string `json:"text"`
	Remedy  string `json:"remedy,omitempty"`
	Info    bool   `json:"info,omitempty"` // information only: possibly intended, or inherent in the hardware
}

// Doctor is what `sluice doctor` shows: GET /v1/doctor.
type Doctor struct {
	Problems []Problem `json:"problems"`
	Checks   []Check   `json:"checks,omitempty"` // only of `sluice doctor --offline`: the checklist of the host
}

// Check is one line of the checklist of `sluice doctor --offline`.
type Check struct {
	Subject string `json:"subject"` // what was checked: "kernel", "IOMMU", "libvirt", a PF, a VM
	Result  string `json:"result"`  // "pass", "warn" or "fail"
	Text    string `json:"text"`
	Remedy  string `json:"remedy,omitempty"`
}
