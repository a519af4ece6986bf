package model

import "time"

// Bandwidth is the state of the bandwidth controller, published with the View. It is not changed afterwards.
type Bandwidth struct {
	At        time.Time      `json:"at"`        // of the last readings
	Period    time.Duration  `json:"period_ns"` // between two readings
	Allocator string         `json:"allocator"`
	Off       bool           `json:"off,omitempty"` // SLAs are not enforced: bandwidth.enabled is false
	Links     []LinkState    `json:"links"`         // by PF
	NICs      []NICBandwidth `json:"nics"`          // every NIC of every running VM, by VM and alias
	// VirtualPFs are those of running VMs, each with the totals of all its functions, under the alias of the NIC of the PF
	// itself. NICs has the functions, each with its own part of that.
	VirtualPFs []NICBandwidth `json:"virtual_pfs,omitempty"`
	Problems   []Problem      `json:"problems,omitempty"` // overcommitment, conflicting rules, unreadable metadata, unenforceable limits
	Changes    uint64         `json:"changes"`            // limits changed since the start
	Late       uint64         `json:"late"`               // periods without readings since the start
	Took       time.Duration  `json:"took_ns"`            // duration of the last period's work: reading, deciding, applying
}

// LinkState is a PF's link, and what is guaranteed on it.
type LinkState struct {
	PF         string   `json:"pf"`
	Speed      uint64   `json:"speed_bits_s"`            // what it is taken to carry before any is used: the driver's, measured or configured
	Capacity   float64  `json:"capacity_bits_s"`         // what the allocator shares out
	Carries    Capacity `json:"carries"`                 // what it is taken to carry now, with the source
	Packets    uint64   `json:"packets_s,omitempty"`     // packets/s that the host can carry on virtio; 0: unknown
	Carried    float64  `json:"carried_bits_s"`          // what all NICs sent in the last period; View.Carried has what of it can be so
	Total      Carried  `json:"-"`                       // the same since the daemon started, both ways and on the wire
	Guaranteed Rate     `json:"guaranteed"`              // sum of the guarantees
	Over       bool     `json:"overcommitted,omitempty"` // more is guaranteed than the link can carry
	// Shortage says who lacks part of what is promised on the link, and who has that instead; nil: nobody lacks anything.
	Shortage *Shortage `json:"shortage,omitempty"`
}

// Shortage is what NICs lack of what they are promised of a link, and who has it instead.
type Shortage struct {
	Bits   uint64        `json:"bits_s"` // that all of them lack
	For    time.Duration `json:"for_ns"` // of the one that has lacked some for longest
	Takers []Taker       `json:"takers"` // who sends most beyond what it is promised, most first
	Text   string        `json:"text"`   // one sentence
	Remedy string        `json:"remedy"`
}

// Taker is a sender that has more of a link than it is promised while others have less.
type Taker struct {
	NICID          // zero: what no NIC is known to send
	VMName string  `json:"vm_name,omitempty"`
	Path   Path    `json:"path,omitempty"`
	Sent   float64 `json:"sent_bits_s"`
	Beyond uint64  `json:"beyond_bits_s"`          // of that, beyond what it is promised
	Limit  uint64  `json:"limit_bits_s,omitempty"` // bits/s to which it is limited now; 0: it is not
	Remedy string  `json:"remedy"`
}

// NICBandwidth is what a NIC is guaranteed, allowed and sends.
type NICBandwidth struct {
	NICID
	VMName    string        `json:"vm_name"`
	VirtualPF string        `json:"virtual_pf,omitempty"` // the virtual PF of which it is a function, or which it is
	PF        string        `json:"pf,omitempty"`         // whose link it shares; "": unknown
	Path      Path          `json:"path"`
	SLA       SLA           `json:"sla"`
	Promised  Rate          `json:"promised,omitzero"` // the part of the guarantee that is kept: all of it, unless overcommitted
	Allowed   Rate          `json:"allowed,omitzero"`  // 0: not limited
	Sent      RateReading   `json:"sent"`
	Received  RateReading   `json:"received"`
	Dropped   Dropped       `json:"dropped_packets,omitzero"`    // at its tap
	DroppedVF Dropped       `json:"dropped_vf_packets,omitzero"` // at its VF's representor
	Short     uint64        `json:"short_bits_s,omitempty"`      // bits/s missing from what it is promised, while it asks for it
	ShortFor  time.Duration `json:"short_for_ns,omitempty"`      // how long it has been short
	// WouldSend is roughly what it would send, in bits/s, if its link were shared as computed. Set in observe mode, while the NIC
	// is short.
	WouldSend uint64        `json:"would_send_bits_s,omitempty"`
	Takes     uint64        `json:"takes_bits_s,omitempty"` // what it sends beyond what it is promised, as a Taker
	Enforcer  []Enforcement `json:"enforcers,omitempty"`
	Code      BandwidthCode `json:"code"`
	Why       string        `json:"why"`              // one sentence
	Remedy    string        `json:"remedy,omitempty"` // of a shortage that it suffers, or is a Taker in
}

// RateReading is a rate measured over a period, in bits/s on the wire.
type RateReading struct {
	Bits    float64 `json:"bits_s"`
	Packets float64 `json:"packets_s"`
	Proof   Proof   `json:"proof,omitempty"` // ProofNone: unknown
}

// Dropped counts the packets of a NIC that a policer has dropped since it was first limited there. Directions are the guest's.
type Dropped struct {
	Tx uint64 `json:"tx"`
	Rx uint64 `json:"rx"`
}

// Of returns the count of one direction.
func (d Dropped) Of(dir Direction) uint64 {
	if dir == Rx {
		return d.Rx
	}
	return d.Tx
}

// Enforcement is a Limit as an enforcer applies it.
type Enforcement struct {
	Limit
	By    string `json:"by"`              // name of the enforcer: "max_tx_rate", "htb", "police", "guest-htb"
	Error string `json:"error,omitempty"` // why it is not enforced, with the remedy
}

// BandwidthCode is the stable name of the reason for what a NIC is allowed.
type BandwidthCode string

// Values of BandwidthCode.
const (
	BandwidthFree        BandwidthCode = "free"          // not limited: nobody needs what it could take
	BandwidthSpare       BandwidthCode = "spare"         // gets what it asks for and part of the spare capacity
	BandwidthShare       BandwidthCode = "share"         // asks for more than its share of the spare capacity
	BandwidthGuarantee   BandwidthCode = "guarantee"     // has what it is promised, and asks for more than there is spare
	BandwidthShort       BandwidthCode = "short"         // has less than it is promised
	BandwidthLimit       BandwidthCode = "limit"         // at its SLA's limit
	BandwidthOver        BandwidthCode = "overcommitted" // more is promised than there is, and its class has a lower priority
	BandwidthUnknown     BandwidthCode = "unknown"       // what it sends cannot be counted
	BandwidthNotEnforced BandwidthCode = "not-enforced"  // no enforcer can limit it on its current path
	BandwidthNoCarrier   BandwidthCode = "no-carrier"    // a function of a virtual PF that has no carrier
	BandwidthContained   BandwidthCode = "contained"     // its guest did not keep its limit
)
