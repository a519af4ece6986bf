package api

import "time"

// MoveReport is a move: planned, under way or finished.
type MoveReport struct {
	Kind    string    `json:"kind"` // plug, unplug or repair
	VM      string    `json:"domain,omitempty"`
	ID      string    `json:"uuid,omitempty"`
	VF      string    `json:"vf"`
	Why     string    `json:"why"`
	Steps   []string  `json:"steps,omitempty"`
	Step    int       `json:"step,omitempty"` // index of the step under way
	Try     int       `json:"try,omitempty"`
	Undoing bool      `json:"undoing,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Took    float64   `json:"took_seconds,omitempty"` // of one that ended
	Error   string    `json:"error,omitempty"`
	// StepTimes are of the steps that began, in that order.
	StepTimes []StepTime `json:"step_times,omitempty"`
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
	Repair  []string `json:"repair,omitempty"` // the steps that repair it; none where it is not Sluice's to repair
	Remedy  string   `json:"remedy,omitempty"` // what repairs it, where no step does
	// Repairing says that its repair waits or is under way, LastError why the last one failed.
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

// RepairReport is what `sluice fsck --repair -o json` prints: what became of each finding.
type RepairReport struct {
	Findings []RepairResult `json:"findings"`
}

// RepairResult is what became of one finding.
type RepairResult struct {
	Finding
	Result string `json:"result"` // Repaired, Failed, Left or Waiting
}

// Problem is something that stands in the way.
type Problem struct {
	Subject string `json:"subject"` // a VM's name, a VF, a PF, or "" for the host
	Text    string `json:"text"`
	Remedy  string `json:"remedy,omitempty"`
	Info    bool   `json:"info,omitempty"` // only worth knowing: it may be meant to be, or is in the nature of the hardware
}

// Doctor is what `sluice doctor` shows: GET /v1/doctor.
type Doctor struct {
	Problems []Problem `json:"problems"`
}
