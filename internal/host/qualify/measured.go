// Package qualify judges from measurements of a PF which of its driver's claims are true. It is pure; package qualify/measure takes the
// measurements.
package qualify

import (
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// Measured holds the measurements. A part that could not be measured says why in its Error.
type Measured struct {
	PF       string
	At       time.Time
	Took     time.Duration
	Version  string
	Hardware api.QualifiedHardware
	VFs      []model.VFID
	Caps     model.Caps // the driver's assumed capabilities
	Slots    int        // assumed number of filters; 0: unknown

	Representors bool // each VF has one, which is the host's end of what the VF sends and receives

	Unbind, Bind, Link []time.Duration
	Passes             map[string]Count // by the code of the claim
	MaxRate            LimitTest        // bits/s, at the VF
	MinRate            MinRate
	Packets            LimitTest // packets/s, at its representor
	Counters           Counted
	Filters            Filters
	Spoof              Spoof
	Peers              []Peer
	Failed, Left       []string

	Scratch *Scratch // nil: without a scratch VM
}

// Count holds the numbers of test frames sent and received.
type Count struct {
	Sent, Got int
	Error     string // why they could not be determined
}

// LimitTest is what passed of a VF's frames without a limit and with one, by turns, in bits/s (of frames without preamble, gap and
// checksum) or packets/s.
type LimitTest struct {
	Limit         uint64
	Free, Limited []float64 // by round
	Refused       string    // the driver's or kernel's error when the limit was set
	Error         string
}

// MinRate is the result of setting a min_tx_rate.
type MinRate struct {
	Asked, Shown uint64 // bits/s
	Refused      string
	Error        string
}

// Counted holds the PF's counters of a VF and the frames that the VF sent and received meanwhile.
type Counted struct {
	Sent, TxCounted     int
	Received, RxCounted int
	Error               string
}

// Filters holds how many unicast filters the PF accepted.
type Filters struct {
	Had     int    // before the measurement
	Added   int    // added before it refused
	Refused string // its error then; "": it accepted as many as were tried
	Error   string
}

// Spoof holds how many frames with a foreign source address arrived, with spoof checking on and off.
type Spoof struct {
	On, Off Count
	Error   string
}

// Scratch holds the measurements with a VM.
type Scratch struct {
	VM    string
	Moves []Move
	Paths []Path
	Under []Loaded
}

// Move is one move of the scratch VM during a stream of round trips.
type Move struct {
	Plug  bool
	Took  time.Duration
	Steps map[string]time.Duration // by the name of the timing
	Rate  float64                  // round trips started per second
	Sent  int
	Lost  int
}

// Path is what one path carried with packets of one size.
type Path struct {
	VF     bool
	Size   int             // of the IP packet, bytes
	Trips  []time.Duration // one at a time
	Sent   int             // round trips, many in flight
	Done   int
	During time.Duration
	CPU    time.Duration // CPU time of the VM's threads on the host for these
	NoCPU  string        // why CPU is unknown; "": it is known
	Error  string
}

// Loaded holds round trips over one path while the VM answered other packets too.
type Loaded struct {
	VF      bool
	Payload int             // bytes of all packets behind the ICMP header
	Offered float64         // packets/s of the background, both directions together; 0: none
	Carried float64         // packets/s of it that came through
	Trips   []time.Duration // one at a time
	Error   string
}

// Full reports whether the path carried less than it was offered.
func (l *Loaded) Full() bool { return l.Carried < carriedLeast*l.Offered }

// carriedLeast is below one because senders are not exact and the answers to the last packets are not waited for.
const carriedLeast = 0.9
