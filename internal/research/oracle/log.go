package oracle

import "time"

// Event is the begin or end of a VM's use of a VF: its guest has it open, or not any more.
type Event struct {
	At time.Duration // since the start
	VM int           // its number in Rates
	On bool
}

// Log lists Events in order of time.
type Log []Event
