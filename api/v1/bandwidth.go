package api

import "time"

// Bandwidth is what `sluice bw` shows: GET /v1/bandwidth.
type Bandwidth struct {
	Mode      string     `json:"mode"`     // with ModeObserve nothing is limited, and "allowed" is what the limit would be
	Observed  time.Time  `json:"observed"` // when the counters were last read; zero: not yet
	Period    float64    `json:"period_seconds"`
	Allocator string     `json:"allocator"`
	Links     []Link     `json:"links"`
	NICs      []NICShare `json:"nics"` // of the running VMs, sorted by VM and NIC
	// VirtualPFs has one entry per virtual PF of the running VMs, the total over all of its functions, under the alias of
	// the PF's own NIC. The individual functions are among NICs, with their rates inside the virtual PF.
	VirtualPFs []NICShare `json:"virtual_pfs,omitempty"`
	Problems   []Problem  `json:"problems"`
	Changes    uint64     `json:"limit_changes"` // since the daemon started
	Late       uint64     `json:"late_periods"`  // since the daemon started
	Took       float64    `json:"took_seconds"`  // how long the last period's work took
}

// Rate is a rate in bits/s and in packets/s; 0 means none.
type Rate struct {
	Bits    float64 `json:"bits_per_second,omitempty"`
	Packets float64 `json:"packets_per_second,omitempty"`
}

// Link is the link of a PF, shared by the NICs behind its VFs and behind its bridge.
type Link struct {
	PF            string   `json:"pf"`
	Speed         float64  `json:"speed_bits_per_second"`    // what it is said to carry; Carries.Speed is the driver's
	Capacity      float64  `json:"capacity_bits_per_second"` // observed capacity, which is what is shared out
	Carries       Capacity `json:"carries"`
	Packets       float64  `json:"packets_per_second,omitempty"` // what the host carries over virtio; 0: unknown
	Sent          float64  `json:"sent_bits_per_second"`
	Guaranteed    Rate     `json:"guaranteed"` // the sum of the promised rates
	Overcommitted bool     `json:"overcommitted"`
	// Shortage is set while NICs get less of it than they are promised.
	Shortage *Shortage `json:"shortage,omitempty"`
}

// Shortage is what NICs lack of what they are promised of a link, and who has that instead.
type Shortage struct {
	Bits   float64 `json:"bits_per_second"` // that all of them lack
	For    float64 `json:"for_seconds"`     // of the one that has lacked some for longest
	Takers []Taker `json:"takers"`          // who sends most beyond what it is promised, most first; empty: nobody
	Text   string  `json:"text"`            // one sentence
	Remedy string  `json:"remedy"`
}

// Taker is a sender that has more of a link than it is promised while others have less.
type Taker struct {
	VM     string  `json:"domain,omitempty"` // absent: no VM is known to send that
	ID     string  `json:"uuid,omitempty"`
	NIC    string  `json:"nic,omitempty"` // of a virtual PF: the PF's own NIC
	Path   string  `json:"path,omitempty"`
	Sent   float64 `json:"sent_bits_per_second"`
	Beyond float64 `json:"beyond_bits_per_second"`          // of that, beyond what it is promised
	Limit  float64 `json:"limit_bits_per_second,omitempty"` // in force; absent: nothing limits it
	Remedy string  `json:"remedy"`
}

// Capacity is what a link is taken to carry, and why. The sources are driver (the speed that its driver reports), qualified
// (measured by `sluice qualify --peer`), configured (pfs[].speed in sluice.yaml), and inferred (from what senders get); "":
// unknown.
type Capacity struct {
	Bits   float64 `json:"bits_per_second"`
	Speed  float64 `json:"speed_bits_per_second,omitempty"` // that its driver reports; absent: none
	Source string  `json:"source,omitempty"`
	Why    string  `json:"why"` // both figures and the source in a few words
}

// NICShare is what a NIC is promised, is allowed and sends. Bits are counted on the wire, including preamble, inter-frame
// gap and checksum.
type NICShare struct {
	VM        string          `json:"domain"`
	ID        string          `json:"uuid"`
	NIC       string          `json:"nic"`
	VirtualPF string          `json:"virtual_pf,omitempty"` // the virtual PF that the function belongs to, or is
	PF        string          `json:"pf,omitempty"`         // whose link it shares; "": unknown
	Path      string          `json:"path"`                 // vf or virtio
	Class     string          `json:"class,omitempty"`
	Source    string          `json:"sla_source,omitempty"` // who set its SLA
	Guarantee Rate            `json:"guarantee"`
	Promised  Rate            `json:"promised"` // the part of the guarantee that can be kept: less where the link is overcommitted
	Limit     Rate            `json:"limit"`
	Receive   Rate            `json:"receive_limit"`
	Weight    float64         `json:"weight"`
	Allowed   Rate            `json:"allowed"` // at the moment; 0: not limited
	Sent      Rate            `json:"sent"`
	SentProof string          `json:"sent_proof,omitempty"` // as Traffic.Proof; "": unknown
	Received  Rate            `json:"received"`
	Dropped   Dropped         `json:"dropped_packets"`                 // at its tap and its VF's representor, since they were first limited
	Short     float64         `json:"short_bits_per_second,omitempty"` // how far it is below what it is promised, while it has demand
	ShortFor  float64         `json:"short_for_seconds,omitempty"`
	WouldSend float64         `json:"would_send_bits_per_second,omitempty"` // in observe mode, when short: what it would send in enforce mode
	Takes     float64         `json:"takes_bits_per_second,omitempty"`      // beyond its promise, as one of the takers in its link's shortage
	Enforced  []EnforcedLimit `json:"enforced"`
	Code      string          `json:"code"`
	Why       string          `json:"why"`
	Remedy    string          `json:"remedy,omitempty"` // if it is short or takes what others lack
}

// Dropped counts packets above a limit, by direction as seen by the guest.
type Dropped struct {
	Tx uint64 `json:"tx"`
	Rx uint64 `json:"rx"`
}

// EnforcedLimit is a limit as one mechanism enforces it.
type EnforcedLimit struct {
	By        string `json:"by"` // max_tx_rate, guest-htb, htb or police
	Path      string `json:"path"`
	Direction string `json:"direction"` // tx or rx
	Rate      Rate   `json:"rate"`
	Contract  Rate   `json:"contract"` // the part that still holds when the daemon is not running
	Error     string `json:"error,omitempty"`
}
