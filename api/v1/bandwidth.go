package api

import "time"

// Bandwidth is what `sluice bw` shows: GET /v1/bandwidth.
type Bandwidth struct {
	Mode      string     `json:"mode"`     // ModeObserve: nothing is limited, "allowed" is what would be
	Observed  time.Time  `json:"observed"` // when the counters were last read; zero: not yet
	Period    float64    `json:"period_seconds"`
	Allocator string     `json:"allocator"`
	Links     []Link     `json:"links"`
	NICs      []NICShare `json:"nics"` // of the running VMs, by VM and NIC
	// VirtualPFs has each virtual PF of the running VMs with what all of its functions have together, under the alias of the
	// NIC of the PF itself. Among NICs its functions have what they have inside.
	VirtualPFs []NICShare `json:"virtual_pfs,omitempty"`
	Problems   []Problem  `json:"problems"`
	Changes    uint64     `json:"limit_changes"` // since the start
	Late       uint64     `json:"late_periods"`  // since the start
	Took       float64    `json:"took_seconds"`  // what the last period cost
}

// Rate is a rate in bits and in packets a second; 0 of either: none.
type Rate struct {
	Bits    float64 `json:"bits_per_second,omitempty"`
	Packets float64 `json:"packets_per_second,omitempty"`
}

// Link is the link of a PF, which the NICs behind its VFs and behind its bridge share.
type Link struct {
	PF            string  `json:"pf"`
	Speed         float64 `json:"speed_bits_per_second"`
	Capacity      float64 `json:"capacity_bits_per_second"`     // what it is seen to carry, and what is shared out
	Packets       float64 `json:"packets_per_second,omitempty"` // what the host carries over virtio; 0: not known
	Sent          float64 `json:"sent_bits_per_second"`
	Guaranteed    Rate    `json:"guaranteed"` // the sum of what is promised
	Overcommitted bool    `json:"overcommitted"`
}

// NICShare is what a NIC is promised, allowed and sends. Bits are those on the wire, with
// preamble, gap and checksum.
type NICShare struct {
	VM        string          `json:"domain"`
	ID        string          `json:"uuid"`
	NIC       string          `json:"nic"`
	VirtualPF string          `json:"virtual_pf,omitempty"` // whose function it is, or which it is
	PF        string          `json:"pf,omitempty"`         // whose link it shares; "": none that is known
	Path      string          `json:"path"`                 // vf or virtio
	Class     string          `json:"class,omitempty"`
	Source    string          `json:"sla_source,omitempty"` // who set its SLA
	Guarantee Rate            `json:"guarantee"`
	Promised  Rate            `json:"promised"` // of the guarantee: less where more is promised than there is
	Limit     Rate            `json:"limit"`
	Receive   Rate            `json:"receive_limit"`
	Weight    float64         `json:"weight"`
	Allowed   Rate            `json:"allowed"` // at the moment; 0: not limited
	Sent      Rate            `json:"sent"`
	SentProof string          `json:"sent_proof,omitempty"` // as Traffic's; "": not known
	Received  Rate            `json:"received"`
	Dropped   Dropped         `json:"dropped_packets"`                 // at its tap, since it has been limited there
	Short     float64         `json:"short_bits_per_second,omitempty"` // what it lacks of what it is promised, while it asks for it
	ShortFor  float64         `json:"short_for_seconds,omitempty"`
	WouldSend float64         `json:"would_send_bits_per_second,omitempty"` // in observe mode, where it is short: about what it would send in enforce mode
	Enforced  []EnforcedLimit `json:"enforced"`
	Code      string          `json:"code"`
	Why       string          `json:"why"`
}

// Dropped are packets above a limit, by direction as the guest sees it.
type Dropped struct {
	Tx uint64 `json:"tx"`
	Rx uint64 `json:"rx"`
}

// EnforcedLimit is a limit as something holds it.
type EnforcedLimit struct {
	By        string `json:"by"` // max_tx_rate, guest-htb, htb or police
	Path      string `json:"path"`
	Direction string `json:"direction"` // tx or rx
	Rate      Rate   `json:"rate"`
	Contract  Rate   `json:"contract"` // the part that holds without the daemon
	Error     string `json:"error,omitempty"`
}
