package model

import "time"

// Bandwidth is what the bandwidth controller knows and does: published with the View. It is not changed afterwards.
type Bandwidth struct {
	At        time.Time      `json:"at"`        // of the last readings
	Period    time.Duration  `json:"period_ns"` // between two readings
	Allocator string         `json:"allocator"`
	Links     []LinkState    `json:"links"` // by PF
	NICs      []NICBandwidth `json:"nics"`  // every NIC of every running VM, by VM and alias
	// VirtualPFs are those of running VMs, each with what all of its functions have together, under the alias of the NIC of
	// the PF itself. Among NICs each function has what it has inside.
	VirtualPFs []NICBandwidth `json:"virtual_pfs,omitempty"`
	Problems   []Problem      `json:"problems,omitempty"` // what is promised beyond what there is, rules that clash, metadata that cannot be read, limits that cannot be had
	Changes    uint64         `json:"changes"`            // limits changed since the start
	Late       uint64         `json:"late"`               // periods without readings since the start
	Took       time.Duration  `json:"took_ns"`            // what the last period cost: reading, deciding, applying
}

// LinkState is a PF's link, and what is promised of it.
type LinkState struct {
	PF         string  `json:"pf"`
	Speed      uint64  `json:"speed_bits_s"`            // as the kernel says, or the config
	Capacity   float64 `json:"capacity_bits_s"`         // what it is seen to carry: what is shared out
	Packets    uint64  `json:"packets_s,omitempty"`     // what the host carries on virtio; 0: not known
	Carried    float64 `json:"carried_bits_s"`          // what all NICs sent in the last period
	Guaranteed Rate    `json:"guaranteed"`              // sum of what is asked for
	Over       bool    `json:"overcommitted,omitempty"` // more is promised than there is
}

// NICBandwidth is what a NIC is promised, allowed and sends.
type NICBandwidth struct {
	NICID
	VMName    string        `json:"vm_name"`
	VirtualPF string        `json:"virtual_pf,omitempty"` // whose function it is, or which it is
	PF        string        `json:"pf,omitempty"`         // whose link it shares; "": none that is known
	Path      Path          `json:"path"`
	SLA       SLA           `json:"sla"`
	Promised  Rate          `json:"promised,omitzero"` // of the guarantee, what is kept: all but where more is promised than there is
	Allowed   Rate          `json:"allowed,omitzero"`  // 0: not limited
	Sent      RateReading   `json:"sent"`
	Received  RateReading   `json:"received"`
	Dropped   Dropped       `json:"dropped_packets,omitzero"`
	Short     uint64        `json:"short_bits_s,omitempty"` // what it lacks of what it is promised, while it asks for it
	ShortFor  time.Duration `json:"short_for_ns,omitempty"` // for how long by now
	// WouldSend is what it would send about, in bits/s, if its link were shared as said: in observe mode, where it is short.
	WouldSend uint64        `json:"would_send_bits_s,omitempty"`
	Enforcer  []Enforcement `json:"enforcers,omitempty"`
	Code      BandwidthCode `json:"code"`
	Why       string        `json:"why"` // one sentence
}

// RateReading is a rate as it was measured over a period, bits/s on the wire.
type RateReading struct {
	Bits    float64 `json:"bits_s"`
	Packets float64 `json:"packets_s"`
	Proof   Proof   `json:"proof,omitempty"` // ProofNone: not known
}

// Dropped is how many packets of a NIC the policer of its tap dropped, as the guest sees their direction, since the tap
// has been limited.
type Dropped struct {
	Tx uint64 `json:"tx"`
	Rx uint64 `json:"rx"`
}

// Of is that of one direction.
func (d Dropped) Of(dir Direction) uint64 {
	if dir == Rx {
		return d.Rx
	}
	return d.Tx
}

// Enforcement is a Limit as an enforcer holds it.
type Enforcement struct {
	Limit
	By    string `json:"by"`              // name of the enforcer: "max_tx_rate", "htb", "police", "guest-htb"
	Error string `json:"error,omitempty"` // why it does not hold, with the remedy
}

// BandwidthCode is the stable name of why a NIC is allowed what it is allowed.
type BandwidthCode string

// The codes.
const (
	BandwidthFree      BandwidthCode = "free"          // nobody needs what it could take: not limited
	BandwidthSpare     BandwidthCode = "spare"         // what it asks for and some of what is left over
	BandwidthShare     BandwidthCode = "share"         // asks for more than its share of what is left over
	BandwidthGuarantee BandwidthCode = "guarantee"     // has what it is promised, and asks for more than is left over
	BandwidthShort     BandwidthCode = "short"         // has less than it is promised
	BandwidthLimit     BandwidthCode = "limit"         // at its SLA's limit
	BandwidthOver      BandwidthCode = "overcommitted" // more is promised than there is, and its class comes later
	BandwidthUnknown   BandwidthCode = "unknown"       // what it sends cannot be counted
	BandwidthUnlimited BandwidthCode = "not-enforced"  // nothing can limit it where it is
	BandwidthNoCarrier BandwidthCode = "no-carrier"    // a function of a virtual PF that has none
	BandwidthContained BandwidthCode = "contained"     // its guest did not keep its limit
)
