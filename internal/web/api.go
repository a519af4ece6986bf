package web

import (
	"context"
	"time"

	"sluice/internal/model"
)

// Backend is the daemon as this package sees it.
type Backend interface {
	// View is the latest picture, never nil after the first tick, never changed once
	// returned. It must not block.
	View() *model.View
	// Do carries out a command or refuses it; a *Refusal tells the caller what to do.
	// It returns when the command is accepted, not when VFs have moved.
	Do(ctx context.Context, c Command) (Result, error)
	// Memory is what the loop knows, between two ticks.
	Memory(ctx context.Context) (Memory, error)
}

// Verb names a command.
type Verb string

// The verbs. Pin, Release and Unpin need a VM.
const (
	VerbPin     Verb = "pin"     // always a VF for this VM, until unpin
	VerbRelease Verb = "release" // no VF for this VM, until unpin
	VerbUnpin   Verb = "unpin"   // the policy decides again, after pin or release
	VerbDrain   Verb = "drain"   // give up all VFs
	VerbUndrain Verb = "undrain" // hand out VFs again
	VerbRepair  Verb = "repair"  // mend what fsck found
	VerbReload  Verb = "reload"  // read the configuration again
)

// Command is one thing a person asks of the daemon.
type Command struct {
	Verb   Verb       `json:"verb"`
	VM     model.VMID `json:"uuid,omitempty"` // "" where unpin names a VM that is not there now
	VMName string     `json:"domain,omitempty"`
	By     string     `json:"by,omitempty"` // who asked, for the log
}

// Result says what the daemon made of a command.
type Result struct {
	Text    string   `json:"text"`              // one sentence
	Details []string `json:"details,omitempty"` // what follows from it, for example the moves that are now planned
}

// Refusal is an error with a way out. Backends return it where a person can do something.
type Refusal struct {
	Text   string `json:"error"`
	Remedy string `json:"remedy,omitempty"`
}

// Error implements error.
func (r *Refusal) Error() string {
	if r.Remedy == "" {
		return r.Text
	}
	return r.Text + "; " + r.Remedy
}

// Status is what `sluice status` shows.
type Status struct {
	Version  string       `json:"version,omitempty"`
	Mode     model.Mode   `json:"mode"`
	Policy   string       `json:"policy"`
	Interval float64      `json:"interval_seconds"`
	Rounds   bool         `json:"rounds"` // the policy decides once an interval, not at every sample
	Drain    bool         `json:"drain"`
	Config   string       `json:"config,omitempty"`
	Started  time.Time    `json:"started"`
	Observed time.Time    `json:"observed"` // when the host was last looked at
	Error    string       `json:"error,omitempty"`
	PFs      []PFStatus   `json:"pfs"`
	VFs      VFCounts     `json:"vfs"`
	VMs      VMCounts     `json:"vms"`
	Load     LoadSum      `json:"load"`
	Moves    MoveCounts   `json:"moves"`
	Recent   []MoveReport `json:"recent"` // newest first
	Problems int          `json:"problems"`
	Findings int          `json:"findings"`
}

// PFStatus is one PF and how its VFs are used.
type PFStatus struct {
	Name    string           `json:"pf"`
	Address model.PCIAddress `json:"pci_address"`
	Driver  string           `json:"driver"`
	Network string           `json:"network"`
	LinkUp  bool             `json:"link_up"`
	Managed bool             `json:"managed"`
	VFs     VFCounts         `json:"vfs"`
}

// VFCounts count VFs by owner.
type VFCounts struct {
	Total   int `json:"total"`
	Held    int `json:"held"` // by VMs, through Sluice
	Free    int `json:"free"`
	Foreign int `json:"foreign"`
}

// VMCounts count VMs.
type VMCounts struct {
	Total   int `json:"total"`
	Running int `json:"running"`
	Holding int `json:"holding"`      // have a VF
	Wanting int `json:"should_hold"`  // the policy says they should have one
	Vetoed  int `json:"vetoed"`       // cannot be given or robbed of one
	Unknown int `json:"load_unknown"` // their load is not known
}

// LoadSum adds up the known loads.
type LoadSum struct {
	PPS     float64 `json:"packets_per_second"`
	Bytes   float64 `json:"bytes_per_second"`
	VFShare float64 `json:"vf_share"` // of the packets, what VMs with a VF move; 0..1
}

// MoveCounts count moves, since the start where not said otherwise.
type MoveCounts struct {
	Active      int     `json:"active"`  // now
	Pending     int     `json:"pending"` // now; in observe mode what would be done
	Plugs       uint64  `json:"plugs"`
	Unplugs     uint64  `json:"unplugs"`
	Failed      uint64  `json:"failed"`
	Retries     uint64  `json:"retries"`
	Repairs     uint64  `json:"repairs"`
	PlugMean    float64 `json:"plug_mean_seconds"`
	UnplugMean  float64 `json:"unplug_mean_seconds"`
	LateSamples uint64  `json:"late_samples"`
}

// VM is one row of `sluice vms`.
type VM struct {
	Name      string         `json:"domain"`
	ID        model.VMID     `json:"uuid"`
	State     model.VMState  `json:"state"`
	Class     string         `json:"class,omitempty"`
	Network   string         `json:"network,omitempty"`
	Tap       string         `json:"target_device,omitempty"`
	MAC       string         `json:"mac,omitempty"`
	VF        string         `json:"vf,omitempty"` // for example "pf0/3"; "" on virtio
	PPS       float64        `json:"packets_per_second"`
	Bytes     float64        `json:"bytes_per_second"`
	Known     bool           `json:"load_known"`
	Proof     model.Proof    `json:"load_proof,omitempty"` // of the weakest part of the load
	Sources   []model.Source `json:"load_sources,omitempty"`
	CPU       float64        `json:"cpus"`
	Hold      bool           `json:"should_hold"`
	Code      model.Code     `json:"code,omitempty"`
	Score     float64        `json:"score,omitempty"`
	Why       string         `json:"why,omitempty"` // the Reason as a sentence
	UnderWay  model.MoveKind `json:"under_way,omitempty"`
	SetByHand string         `json:"by_hand,omitempty"` // "pin" or "release"
}

// VF is one row of `sluice vfs`.
type VF struct {
	Name     string           `json:"name"` // for example "pf0/3"
	PF       string           `json:"pf"`
	Index    int              `json:"vf"`
	Address  model.PCIAddress `json:"pci_address"`
	Driver   string           `json:"driver,omitempty"`
	Network  string           `json:"network,omitempty"`
	Owner    model.Owner      `json:"owner"`
	OwnerWhy string           `json:"owner_why,omitempty"`
	Holder   string           `json:"domain,omitempty"`
	HolderID model.VMID       `json:"uuid,omitempty"`
	MAC      string           `json:"mac,omitempty"`
	VLAN     int              `json:"vlan,omitempty"`
	Rate     uint64           `json:"max_tx_rate_bits,omitempty"`
	InGuest  model.Tri        `json:"in_guest"`
}

// MoveReport is a move: planned, under way or finished.
type MoveReport struct {
	Kind    model.MoveKind `json:"kind"`
	VM      string         `json:"domain,omitempty"`
	ID      model.VMID     `json:"uuid,omitempty"`
	VF      string         `json:"vf"`
	Why     string         `json:"why"`
	Steps   []string       `json:"steps,omitempty"`
	Step    int            `json:"step,omitempty"` // index of the step under way
	Try     int            `json:"try,omitempty"`
	Undoing bool           `json:"undoing,omitempty"`
	Started time.Time      `json:"started,omitzero"`
	Ended   time.Time      `json:"ended,omitzero"`
	Error   string         `json:"error,omitempty"`
}

// Plan is what `sluice plan` shows.
type Plan struct {
	Mode     model.Mode   `json:"mode"`
	Policy   string       `json:"policy"`
	Observed time.Time    `json:"observed"`
	Active   []MoveReport `json:"active"`
	Pending  []MoveReport `json:"pending"`
}

// Path is one pair of a VM and what it moves on both legs.
type Path struct {
	NIC      string         `json:"nic"`
	MAC      string         `json:"mac"`
	Tap      string         `json:"target_device,omitempty"`
	Network  string         `json:"network,omitempty"`
	Failover model.Failover `json:"failover,omitempty"`
	VF       string         `json:"vf,omitempty"`
	Virtio   model.Traffic  `json:"virtio"`
	VFPath   model.Traffic  `json:"vf_path"`
}

// Explanation is what `sluice explain VM` shows.
type Explanation struct {
	VM       VM           `json:"vm"`
	Sentence string       `json:"sentence"`
	Reason   model.Reason `json:"reason"`
	Paths    []Path       `json:"paths"`
	Veto     string       `json:"veto,omitempty"`
	UnderWay *MoveReport  `json:"under_way,omitempty"`
	LastMove *MoveReport  `json:"last_move,omitempty"`
	Changes  []string     `json:"would_change"` // what would change the verdict
}

// Finding is one line of `sluice fsck`.
type Finding struct {
	Code    string   `json:"code"`
	Subject string   `json:"subject"`
	Text    string   `json:"text"`
	Repair  []string `json:"repair,omitempty"` // the steps that mend it; none where it is not Sluice's to mend
}

// Fsck is what `sluice fsck` shows.
type Fsck struct {
	Findings []Finding `json:"findings"`
}

// Doctor is what `sluice doctor` shows.
type Doctor struct {
	Problems []model.Problem `json:"problems"`
}
