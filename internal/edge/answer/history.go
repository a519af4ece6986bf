package answer

import "time"

// HistoryQuery says of what and from when on.
type HistoryQuery struct {
	VM   string    // name or UUID; "": all there is
	From time.Time // no step that begins before; zero: from the first on. The API rounds it down to the step

	Bytes bool // of all VMs; of one they are always there
}

// HistoryStep is the time of one figure in a history.
const HistoryStep = 10 * time.Second
