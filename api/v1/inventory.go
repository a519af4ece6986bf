package api

import "time"

// VM is one row of `sluice vms`: GET /v1/vms lists them by name.
type VM struct {
	Name     string   `json:"domain"`
	ID       string   `json:"uuid"`
	State    string   `json:"state"` // running, paused, migrating or stopped
	Class    string   `json:"class,omitempty"`
	Network  string   `json:"network,omitempty"`
	Tap      string   `json:"target_device,omitempty"`
	MAC      string   `json:"mac,omitempty"`
	VF       string   `json:"vf,omitempty"` // for example "pf0/3"; "" on virtio
	PPS      float64  `json:"packets_per_second"`
	Bytes    float64  `json:"bytes_per_second"`
	Known    bool     `json:"load_known"`             // false: the two rates above are meaningless
	Proof    string   `json:"load_proof,omitempty"`   // of the weakest part of the load, as Traffic.Proof
	Sources  []string `json:"load_sources,omitempty"` // tap, pf, agent or sim
	CPU      float64  `json:"cpus"`
	Hold     bool     `json:"should_hold"`
	Code     string   `json:"code,omitempty"`         // of the reason; "": nothing is decided yet
	Score    float64  `json:"score,omitempty"`        // the policy's score, packets/s unless it says otherwise
	Worth    float64  `json:"packet_worth,omitempty"` // value of one of its packets in the score; 0: one
	Why      string   `json:"why,omitempty"`          // the reason as a sentence
	Short    string   `json:"why_short,omitempty"`    // the same in a few words, at most 28 columns
	UnderWay string   `json:"under_way,omitempty"`
	Override string   `json:"override,omitempty"` // "pin" or "release" if a user requested it at run time
}

// VF is one row of `sluice vfs`: GET /v1/vfs lists them by PF and index.
type VF struct {
	Name     string `json:"name"` // for example "pf0/3"
	PF       string `json:"pf"`
	Index    int    `json:"vf"`
	Address  string `json:"pci_address"`
	Driver   string `json:"driver,omitempty"` // on the host
	Network  string `json:"network,omitempty"`
	Owner    string `json:"owner"`               // free, sluice or foreign
	OwnerWhy string `json:"owner_why,omitempty"` // of a foreign VF: the evidence
	Holder   string `json:"domain,omitempty"`
	HolderID string `json:"uuid,omitempty"`
	MAC      string `json:"mac,omitempty"` // the administrative MAC
	VLAN     int    `json:"vlan,omitempty"`
	Rate     uint64 `json:"max_tx_rate_bits,omitempty"` // bits/s, 0: no limit
	InGuest  string `json:"in_guest"`                   // yes, no or unknown: whether the guest's driver has it open
}

// Explanation is what `sluice explain VM` shows: GET /v1/explain/VM, by name or UUID.
type Explanation struct {
	VM         VM          `json:"vm"`
	Sentence   string      `json:"sentence"`
	Reason     Reason      `json:"reason"`
	Paths      []Path      `json:"paths"`                 // one per NIC
	Shares     []NICShare  `json:"bandwidth,omitempty"`   // of its NICs, while it runs
	VirtualPFs []NICShare  `json:"virtual_pfs,omitempty"` // of its virtual PFs, each summed over its functions
	Links      []Link      `json:"links,omitempty"`       // that its NICs share
	Veto       string      `json:"veto,omitempty"`
	Worth      string      `json:"worth,omitempty"`   // the value of one of its packets and where it comes from, if not one
	Figures    []Figure    `json:"figures,omitempty"` // of the policy, behind the sentence
	Learned    string      `json:"learned,omitempty"` // what the policy learned about its bursts; with several eligible NICs, see Path.Learned
	Override   *Override   `json:"override,omitempty"`
	UnderWay   *MoveReport `json:"under_way,omitempty"`
	LastMove   *MoveReport `json:"last_move,omitempty"`
	Events     []Event     `json:"events,omitempty"` // the last ones of the VM, oldest first
	Changes    []string    `json:"would_change"`     // what would change the verdict
}

// Path is a NIC of a VM, with its traffic over virtio and over the VF behind it.
type Path struct {
	NIC      string `json:"nic"` // libvirt's alias
	MAC      string `json:"mac"`
	Tap      string `json:"target_device,omitempty"`
	Network  string `json:"network,omitempty"`
	Failover string `json:"failover,omitempty"` // teaming or bond; "": it cannot fall back to virtio
	// VirtualPF is set for a function of a virtual PF; Function is 0 for the PF itself and n for its VF n-1.
	VirtualPF string  `json:"virtual_pf,omitempty"`
	Function  int     `json:"function,omitempty"`
	VF        string  `json:"vf,omitempty"`
	Why       string  `json:"why,omitempty"`     // the NIC's own reason, if the VM has several NICs that may have a VF
	Learned   string  `json:"learned,omitempty"` // likewise, what was learned about the NIC's bursts
	Virtio    Traffic `json:"virtio"`
	VFPath    Traffic `json:"vf_path"`
}

// Traffic is the load of one path.
type Traffic struct {
	RxPPS   float64 `json:"rx_pps"`
	TxPPS   float64 `json:"tx_pps"`
	RxBytes float64 `json:"rx_bytes_s"`
	TxBytes float64 `json:"tx_bytes_s"`
	Source  string  `json:"source,omitempty"` // who counted: tap, pf, agent or sim
	Known   bool    `json:"known"`            // false: no two usable samples
	// At is when the guest reported it, if that is older than the snapshot.
	At time.Time `json:"at,omitzero"`
	// Proof is what vouches for the load: hardware, kernel, corroborated (the guest reports it, and the host's counters are
	// consistent with it), guest (nothing supports it), or "" for nothing.
	Proof string `json:"proof,omitempty"`
	Note  string `json:"note,omitempty"`
	// Waiting is what the guest reports as queued for sending.
	Waiting uint64 `json:"waiting_bytes,omitempty"`
}

// Reason says why a VM holds, gets, loses or does not get a VF.
type Reason struct {
	VM      string    `json:"vm"`                     // UUID
	Code    string    `json:"code"`                   // a stable code, see docs/policies.md
	Hold    bool      `json:"hold"`                   // the verdict: it should hold a VF
	Policy  string    `json:"policy,omitempty"`       // the policy that decided; "": the rules around it
	Score   float64   `json:"score,omitempty"`        // packets/s unless the policy says otherwise
	Price   float64   `json:"price,omitempty"`        // the score at which a VF changes hands
	Regret  float64   `json:"regret,omitempty"`       // packets lost so far by not moving
	Gain    float64   `json:"swap_gain,omitempty"`    // packets that a swap with Other would gain, if it does not pay yet
	Cost    float64   `json:"swap_cost,omitempty"`    // packets that must be gained for it
	Style   string    `json:"style,omitempty"`        // how patient the policy is with its load now
	Rank    int       `json:"rank,omitempty"`         // 1 is first; 0: not ranked
	Slots   int       `json:"slots,omitempty"`        // number of VFs that the ranking shared out
	Worth   float64   `json:"packet_worth,omitempty"` // value of one of its packets in the score; 0: one
	Bursts  Bursts    `json:"bursts,omitzero"`        // what the policy learned about its load
	Other   string    `json:"other,omitempty"`        // UUID of the runner-up (of a holder) or of the holder to beat
	OtherNm string    `json:"other_name,omitempty"`
	Rate    uint64    `json:"max_tx_rate_bits,omitempty"` // bits/s limit that the policy sets on its VF; 0: none
	Until   time.Time `json:"until,omitzero"`
	Detail  string    `json:"detail,omitempty"`
}

// Figure is a figure of a policy behind a Reason.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"` // with its unit
	Means string `json:"means"`
}

// Bursts is what a policy learned about a load that alternates between high and low.
type Bursts struct {
	Length  float64 `json:"length_seconds"`  // of a burst, the mean of the last few
	Between float64 `json:"between_seconds"` // from the end of one burst to the start of the next, likewise
	Seen    int     `json:"seen"`            // number of bursts seen from start to end
}
