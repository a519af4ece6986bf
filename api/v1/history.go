package api

import "time"

// History is what the daemon recorded, at most the last hour: GET /v1/history for the host, with ?vm=NAME (or UUID) for one
// VM. With ?from=TIME it has only the steps that begin at or after TIME, and the moves and holdings that had not ended by
// then. To follow it, ask from the To of the last answer and append.
type History struct {
	Revision uint64    `json:"revision"`
	From     time.Time `json:"from"` // start of the first step
	To       time.Time `json:"to"`   // end of the last complete step; equal to From if there is none
	Step     float64   `json:"step_seconds"`
	// VMs are sorted by name. VMs that are gone stay as long as the history covers them.
	VMs []VMHistory `json:"vms"`
	// Holdings record who held which VF when, sorted by VF and then by time.
	Holdings []Holding `json:"holdings"`
	// Moves are those that ended or are under way, oldest first, each with its steps.
	Moves []MoveRecord `json:"moves"`
	// Dropped counts moves that were discarded before they were an hour old because there were too many.
	Dropped int `json:"moves_dropped,omitempty"`
	// Links are the loads of the PFs, sorted by PF.
	Links []LinkHistory `json:"links"`
}

// VMHistory is the load of a VM. Each list has one value per step from History.From to History.To, the mean over that step;
// it is NaN if the load was unknown or the VM did not exist. The values cover the VM's NICs that may have a VF, or all NICs
// if none may.
type VMHistory struct {
	Name   string  `json:"domain"`
	ID     string  `json:"uuid"`
	Gone   bool    `json:"gone,omitempty"`
	Virtio Figures `json:"virtio_packets_per_second"`  // both directions together
	VF     Figures `json:"vf_packets_per_second"`      // 0 if it has no VF
	Bytes  Figures `json:"bytes_per_second,omitempty"` // both paths; only with ?vm=
}

// Holding is the time during which a VM held a VF.
type Holding struct {
	VF    string    `json:"vf"` // for example "pf0/3"
	PF    string    `json:"pf"`
	VM    string    `json:"domain,omitempty"` // "" if the holder is not managed by Sluice
	ID    string    `json:"uuid,omitempty"`
	Owner string    `json:"owner"` // sluice or foreign
	From  time.Time `json:"from"`
	To    time.Time `json:"to,omitzero"` // zero: still held
}

// MoveRecord is a move with the times of its steps, and the reason that applied when it began.
type MoveRecord struct {
	ID     uint64     `json:"id"`   // counted from 1, in order of start, since the daemon started
	Move   MoveReport `json:"move"` // without Steps and StepTimes
	Steps  []StepTime `json:"step_times,omitempty"`
	Reason *Reason    `json:"reason,omitempty"`
	// Sentence is the reason as a sentence, as `sluice explain` gave it then.
	Sentence string `json:"sentence,omitempty"`
}

// StepTime is a step that began, in order of start; steps that roll a move back follow those they undo.
type StepTime struct {
	Step  string    `json:"step"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to,omitzero"` // zero: under way
	Tries int       `json:"tries"`
	Undo  bool      `json:"undo,omitempty"`
	Error string    `json:"error,omitempty"` // of the last try
}

// LinkHistory is what a PF's link sent, one value per step.
type LinkHistory struct {
	PF       string  `json:"pf"`
	Bits     Figures `json:"sent_bits_per_second"`
	Capacity uint64  `json:"capacity_bits_per_second,omitempty"` // what it is taken to carry, see Link.Carries; 0: unknown
}

// WhatIf is what each policy would have achieved with the loads of the last hour: GET /v1/whatif. A separate process
// computes it from the samples of History, with a minimum interval between runs.
type WhatIf struct {
	From     time.Time      `json:"from"`
	To       time.Time      `json:"to"`
	Computed time.Time      `json:"computed,omitzero"`     // zero: not yet
	Age      float64        `json:"age_seconds,omitempty"` // how long ago To is: the loads are not of the last hour if that is long
	Running  bool           `json:"running,omitempty"`
	Error    string         `json:"error,omitempty"`
	Remedy   string         `json:"remedy,omitempty"`
	Current  string         `json:"current_policy"`
	Policies []PolicyResult `json:"policies,omitempty"` // best net benefit first
}

// PolicyResult is what one policy achieved.
type PolicyResult struct {
	Policy string `json:"policy"`
	// Net is the share, 0..1, of all packets that VFs carried, less the cost of the moves.
	Net   float64 `json:"net_share"`
	Gross float64 `json:"gross_share"` // before the cost of the moves
	Moves int     `json:"moves"`
}
