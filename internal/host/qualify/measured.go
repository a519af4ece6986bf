// Package qualify judges what was measured on a PF: which of its driver's claims are true. It is pure; package
// qualify/measure does the measuring.
package qualify

import (
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// Measured is what was measured. A part that could not be measured says why in its Error.
type Measured struct {
	PF       string
	At       time.Time
	Took     time.Duration
	Version  string
	Hardware api.QualifiedHardware
	VFs      []model.VFID
	Caps     model.Caps // what the driver is thought to be able to
	Slots    int        // how many filters it is thought to take; 0: not known

	Unbind, Bind, Link []time.Duration
	Passes             map[string]Count // by the code of the claim
	MaxRate            Rate
	MinRate            MinRate
	Counters           Counted
	Filters            Filters
	Spoof              Spoof
	Failed, Left       []string

	Scratch *Scratch // nil: without a scratch VM
}

// Count is how many test frames were sent, and how many of them arrived.
type Count struct {
	Sent, Got int
	Error     string // why it could not be told
}

// Rate is what a VF sent without a limit and with one, in bits/s of frames without preamble, gap and checksum.
type Rate struct {
	Free    float64
	Limit   uint64
	Limited float64
	Refused string // what the driver said to the limit
	Error   string
}

// MinRate is what became of a min_tx_rate.
type MinRate struct {
	Asked, Shown uint64 // bits/s
	Refused      string
	Error        string
}

// Counted is what the PF counted of a VF while it sent and received frames.
type Counted struct {
	Sent, TxCounted     int
	Received, RxCounted int
	Error               string
}

// Filters is how many unicast filters the PF took.
type Filters struct {
	Had     int    // that it had before
	Added   int    // until it refused
	Refused string // what it said then; "": it took as many as were tried
	Error   string
}

// Spoof is what arrived of frames with somebody else's source address.
type Spoof struct {
	On, Off Count
	Error   string
}

// Scratch is what was measured with a VM.
type Scratch struct {
	VM    string
	Moves []Move
	Paths []Path
}

// Move is one move of the scratch VM, with a stream of round trips meanwhile.
type Move struct {
	Plug  bool
	Took  time.Duration
	Steps map[string]time.Duration // by the name of the timing
	Rate  float64                  // round trips/s that were begun
	Sent  int
	Lost  int
}

// Path is what one path carried with packets of one size.
type Path struct {
	VF     bool
	Size   int             // of the IP packet, bytes
	Trips  []time.Duration // one after the other
	Sent   int             // round trips, many under way
	Done   int
	During time.Duration
	CPU    time.Duration // that the VM's threads on the host took for these
	NoCPU  string        // why it is not known; "": it is
	Error  string
}
