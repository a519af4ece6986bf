package api

import "time"

// History is what the daemon remembers of the time before now, at most an hour: GET /v1/history
// for the host, with ?vm=NAME (or UUID) for one VM. With ?from=TIME it has only the steps that begin then or later, and
// what of moves and holdings had not ended by then: ask from the last answer's To, and append.
type History struct {
	Revision uint64    `json:"revision"`
	From     time.Time `json:"from"` // begin of the first step
	To       time.Time `json:"to"`   // end of the last one that is over; the same as From while there is none
	Step     float64   `json:"step_seconds"`
	// VMs are by name; VMs that have gone stay while the history reaches back to them.
	VMs []VMHistory `json:"vms"`
	// Holdings say who held which VF when, by VF and then by time.
	Holdings []Holding `json:"holdings"`
	// Moves that ended or are under way, oldest first, each with its steps.
	Moves []MoveRecord `json:"moves"`
	// Dropped counts moves that were forgotten before their hour was over, since there were too many.
	Dropped int `json:"moves_dropped,omitempty"`
	// Links are the PFs' loads, by PF.
	Links []LinkHistory `json:"links"`
}

// VMHistory is the load of a VM. Each list has one value for each step from History.From to History.To, the mean of what
// was seen in it. Not known is a step in which the load was not known or the VM was not there. The VM's NICs that may have
// a VF count, or all where none may.
type VMHistory struct {
	Name   string  `json:"domain"`
	ID     string  `json:"uuid"`
	Gone   bool    `json:"gone,omitempty"`
	Virtio Figures `json:"virtio_packets_per_second"`  // both directions together
	VF     Figures `json:"vf_packets_per_second"`      // 0 where it has none
	Bytes  Figures `json:"bytes_per_second,omitempty"` // both paths; only with ?vm=
}

// Holding is the time during which a VM held a VF.
type Holding struct {
	VF    string    `json:"vf"` // for example "pf0/3"
	PF    string    `json:"pf"`
	VM    string    `json:"domain,omitempty"` // "" where somebody else holds it
	ID    string    `json:"uuid,omitempty"`
	Owner string    `json:"owner"` // sluice or foreign
	From  time.Time `json:"from"`
	To    time.Time `json:"to,omitzero"` // zero: still
}

// MoveRecord is a move with the times of its steps, and the reason that was in force when it began.
type MoveRecord struct {
	ID     uint64     `json:"id"`   // in order of beginning since the start of the daemon, from 1
	Move   MoveReport `json:"move"` // without Steps and StepTimes
	Steps  []StepTime `json:"step_times,omitempty"`
	Reason *Reason    `json:"reason,omitempty"`
	// Sentence is the reason in words, as `sluice explain` said it then.
	Sentence string `json:"sentence,omitempty"`
}

// StepTime is a step that began, in the order in which they began; steps that take a move back
// follow those they undo.
type StepTime struct {
	Step  string    `json:"step"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to,omitzero"` // zero: under way
	Tries int       `json:"tries"`
	Undo  bool      `json:"undo,omitempty"`
	Error string    `json:"error,omitempty"` // of the last try
}

// LinkHistory is what a PF's link sent, one value for each step.
type LinkHistory struct {
	PF       string  `json:"pf"`
	Bits     Figures `json:"sent_bits_per_second"`
	Capacity uint64  `json:"capacity_bits_per_second,omitempty"` // 0: not known
}

// WhatIf says what each policy would have done with the loads of the last hour: GET /v1/whatif.
// It is worked out beside the daemon, at most once in a while, from the samples of History.
type WhatIf struct {
	From     time.Time      `json:"from"`
	To       time.Time      `json:"to"`
	Computed time.Time      `json:"computed,omitzero"` // zero: not yet
	Running  bool           `json:"running,omitempty"`
	Error    string         `json:"error,omitempty"`
	Remedy   string         `json:"remedy,omitempty"`
	Current  string         `json:"current_policy"`
	Policies []PolicyResult `json:"policies,omitempty"` // best net benefit first
}

// PolicyResult is what one policy was worth.
type PolicyResult struct {
	Policy string `json:"policy"`
	// Net is the share, 0..1, of all packets that VFs carried, less what its moves cost.
	Net   float64 `json:"net_share"`
	Gross float64 `json:"gross_share"` // before moves are paid for
	Moves int     `json:"moves"`
}
