package answer

import "time"

// HistoryQuery selects a VM and a start time.
type HistoryQuery struct {
	VM   string    // name or UUID; "": the whole host
	From time.Time // steps that begin at or after it; zero: all. The API rounds it down to a step

	Bytes bool // include bytes for all VMs; for a single VM they are always included
}

// HistoryStep is the duration that one value in a history covers.
const HistoryStep = 10 * time.Second
