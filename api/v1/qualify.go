package api

import "time"

// Qualification is what `sluice qualify PF` found out about a PF, its driver and this host. With --save it is stored in
// state_dir/qualify/PF.json, where the daemon reads it.
type Qualification struct {
	PF       string            `json:"pf"`
	At       time.Time         `json:"at"`
	Took     float64           `json:"took_seconds"`
	Version  string            `json:"version"` // of Sluice
	Hardware QualifiedHardware `json:"hardware"`
	VFs      []string          `json:"vfs"` // the VFs that were used, for example "pf0/6"
	Claims   []Claim           `json:"claims"`
	Capacity []LinkCapacity    `json:"capacity,omitempty"` // only with peers, one entry each
	Times    []Timing          `json:"times,omitempty"`
	Moves    *MoveCost         `json:"moves,omitempty"`    // only with a scratch VM
	Paths    []PathBySize      `json:"paths,omitempty"`    // only with a scratch VM; sorted by size
	HostCPU  *PacketCPU        `json:"host_cpu,omitempty"` // likewise
	Boosts   []BoostAtRate     `json:"boosts,omitempty"`   // likewise; sorted by payload and rate
	Boost    *BoostLine        `json:"boost,omitempty"`    // likewise; the line through Boosts
	Notes    []string          `json:"notes,omitempty"`    // what a reader must know to judge the results
	Failed   []string          `json:"failed,omitempty"`   // what could not be measured, and why
	Left     []string          `json:"left,omitempty"`     // what could not be restored; `sluice qualify --restore` tries again
	Scratch  string            `json:"scratch,omitempty"`  // the VM
}

// QualifiedHardware identifies what was tested: the claims prove nothing about any other hardware or software.
type QualifiedHardware struct {
	Address  string `json:"pci_address"`
	Device   string `json:"device"` // vendor:device and subsystem, as lspci -nn prints them
	Driver   string `json:"driver"` // of the PF
	VFDriver string `json:"vf_driver,omitempty"`
	Version  string `json:"driver_version,omitempty"`
	Firmware string `json:"firmware,omitempty"`
	Kernel   string `json:"kernel"`
	Speed    uint64 `json:"speed_bits,omitempty"` // of the link, bits/s; 0: unknown
	NumVFs   int    `json:"num_vfs"`
	Emulated bool   `json:"emulated,omitempty"` // results prove function, not speed
}

// The codes of claims.
const (
	ClaimMaxTxRate  = "max_tx_rate" // a VF's max_tx_rate is enforced
	ClaimMinTxRate  = "min_tx_rate" // a VF's min_tx_rate is accepted and shown
	ClaimVFCounters = "vf_counters" // the PF counts what its VFs move
	ClaimVFPackets  = "vf_packets"  // packets/s of a VF can be limited at its representor; only of VFs that have one
	ClaimPFFilters  = "pf_filters"  // the PF accepts filters for other MACs: Claim.Number is how many
	ClaimSelfFDB    = "self_fdb"    // with such a filter, frames from a VF to that MAC reach the host
	ClaimNeedsSelf  = "needs_self"  // without one, they do not
	ClaimVFToPF     = "vf_to_pf"    // frames from a VF to the PF's MAC reach the host
	ClaimPFToVF     = "pf_to_vf"    // frames that the host sends through the PF to a VF's MAC reach the VF
	ClaimVFToVF     = "vf_to_vf"    // frames from one VF to another VF's MAC reach the latter
	ClaimLoopsToVF  = "loops_to_vf" // a VF receives its own broadcasts
	ClaimLoopsToPF  = "loops_to_pf" // the PF receives its own broadcasts
	ClaimSpoofCheck = "spoof_check" // with spoof checking on, frames with another source MAC do not leave the VF
)

// Claim is a property that a driver or NIC is said to have, and whether it has it.
type Claim struct {
	Code     string `json:"code"`
	Text     string `json:"text"`               // the claim as a sentence
	Expected string `json:"expected,omitempty"` // yes or no: what Sluice assumes about this driver; "": nothing
	Measured string `json:"measured"`           // yes, no or unknown
	Evidence string `json:"evidence"`           // the figures behind it, or why it could not be measured
	Number   int    `json:"number,omitempty"`   // of ClaimPFFilters
}

// LinkCapacity is what the PF's link carried to a peer.
type LinkCapacity struct {
	Peer string `json:"peer"` // its address and port
	VLAN int    `json:"vlan"` // the tag of the frames; 0: they were untagged
	// Bits are counted as bandwidth control counts them: frames with preamble, gap and checksum, but without the tag.
	Bits     float64 `json:"bits_per_second"`
	Measured string  `json:"measured"` // yes: it is what the link carries; unknown: it carries at least this
	Evidence string  `json:"evidence"`
}

// The names of timings.
const (
	TimeUnbind = "unbind" // a VF from its host driver to vfio-pci
	TimeBind   = "bind"   // from vfio-pci to its host driver, until the interface exists
	TimeLink   = "link"   // from setting the interface up to its carrier
	TimeAttach = "attach" // the hot-plug into the VM
	TimeGuest  = "guest"  // until the guest's driver has opened the VF
	TimeDetach = "detach" // the hot-unplug, until the VM has released the VF
	TimePlug   = "plug"   // the whole move to a VF
	TimeUnplug = "unplug" // the whole move back to virtio
)

// Timing is how long something took, in seconds.
type Timing struct {
	Name   string  `json:"name"`
	Count  int     `json:"count"`
	Median float64 `json:"median_seconds"`
	Worst  float64 `json:"worst_seconds"`
}

// MoveCost is what moves of the scratch VM cost a stream of round trips.
type MoveCost struct {
	Rate     float64 `json:"round_trips_per_second"` // sent while the VM moved
	Moves    int     `json:"moves"`
	Lost     int     `json:"lost"`         // round trips, over all moves
	LostMean float64 `json:"lost_seconds"` // of traffic, in an average move: lost_s of placement
	LostMost float64 `json:"lost_seconds_worst"`
}

// PathBySize is what virtio and the VF carry between host and scratch VM with packets of one size. A round trip is an ICMP
// echo and its reply, so it is two packets on the path.
type PathBySize struct {
	Size   int        `json:"size"` // of the IP packet, bytes
	Virtio PathFigure `json:"virtio"`
	VF     PathFigure `json:"vf"`
	// Boost is how far the VF's median round-trip time is below virtio's, in percent of virtio's: FlexVF's metric. A
	// negative value means that the VF is slower.
	Boost float64 `json:"boost_percent"`
}

// PathFigure is the measurement of one path.
type PathFigure struct {
	Median  float64 `json:"median_seconds"` // of a round trip, one at a time
	P99     float64 `json:"p99_seconds"`
	Packets float64 `json:"packets_per_second"` // both directions together, with many packets in flight
	Lost    float64 `json:"lost_share"`         // of those packets
	// HostCPU is the CPU time per packet of the VM's host threads: QEMU and vhost without the vCPUs. nil: not measured.
	HostCPU *float64 `json:"host_cpu_seconds_per_packet,omitempty"`
}

// PacketCPU is the additional CPU time per packet that virtio costs the host compared with a VF: worth.packet_cpu and
// worth.kilobyte_cpu of placement.
type PacketCPU struct {
	Packet   float64 `json:"seconds_per_packet"`   // per packet of any size
	Kilobyte float64 `json:"seconds_per_kilobyte"` // and per 1,000 bytes of it
}

// BoostAtRate is a point of FlexVF's figure 5: how far a VF's median round-trip time is below virtio's while the VM has other packets to
// answer.
type BoostAtRate struct {
	Payload    int          `json:"payload"` // bytes of each packet behind the ICMP header
	Background float64      `json:"background_packets_per_second"`
	Virtio     LoadedFigure `json:"virtio"`
	VF         LoadedFigure `json:"vf"`
	Boost      float64      `json:"boost_percent"` // in percent of virtio's
	// Full says that a path carried less than the background that it was offered: then packets wait for that path, or the measurement for
	// this host's CPU, and the line leaves the point out.
	Full bool `json:"full,omitempty"`
}

// LoadedFigure is the measurement of one path under background load.
type LoadedFigure struct {
	Median  float64 `json:"median_seconds"`             // of a round trip, one at a time
	Carried float64 `json:"carried_packets_per_second"` // of the background, both directions together
}

// BoostLine is the line fitted to the boost over the background rate, and what else the simulator's model of latency (`latency` of a
// scenario) needs.
type BoostLine struct {
	AtRest  float64 `json:"percent_at_rest"`
	PerKpps float64 `json:"percent_per_1000_packets_per_second"`
	Most    float64 `json:"most_percent"`      // the largest boost that the line was fitted to
	VF      float64 `json:"vf_packet_seconds"` // half a round trip over the VF at rest
}
