package oracle

import "time"

// Event is the start or end of a VM's use of a VF, that is, of the time in which its guest has it open.
type Event struct {
	At time.Duration // since the start
	VM int           // index in Rates
	On bool
}

// Log is a list of Events in order of time.
type Log []Event
