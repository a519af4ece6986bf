package model

import (
	"cmp"
	"time"
)

// Rules are what the config and run-time commands ask of placement.
type Rules struct {
	Policy   string        `json:"policy"`   // name of the policy
	Interval time.Duration `json:"interval"` // time between rounds, for policies that work in rounds
	VMs      []VMRule      `json:"vms"`      // first match wins, field by field
	Classes  []Class       `json:"classes,omitempty"`
	Drain    bool          `json:"drain"` // take all VFs back
	DrainBy  string        `json:"drain_by,omitempty"`
	Params   Params        `json:"params,omitzero"`
	// KeepSLAs means that SLAs are enforced, so that no NIC is given a VF that would break one.
	KeepSLAs    bool   `json:"keep_slas,omitempty"`
	HostPackets uint64 `json:"host_packets_s,omitempty"` // packets/s that the host can carry on virtio; 0: unknown
	Overcommit  bool   `json:"overcommit,omitempty"`     // more may be guaranteed at run time than there is
	Worth       Worth  `json:"worth,omitzero"`           // how much a packet counts when VFs are shared out
	// Claims are one source of SLAs, sorted by Claim.Compare, each once.
	Claims []Claim `json:"claims,omitempty"`
	// Ports are another, sorted by Port.Compare, each tap once.
	Ports []Port `json:"ports,omitempty"`
}

// Class holds what the VMs of a class get unless one of their rules says otherwise.
type Class struct {
	Name     string  `json:"name"`
	Weight   float64 `json:"weight,omitempty"` // as in VMRule; 0: not set
	Priority int     `json:"priority,omitempty"`
	SLA      SLA     `json:"sla,omitzero"` // what its VMs' NICs get unless something more specific says otherwise

	Sensitivity Sensitivity `json:"latency_sensitivity,omitempty"`
}

// Params are policy parameters; a missing one has the policy's default.
type Params map[string]float64

// Param describes a parameter of a policy.
type Param struct {
	Name     string
	Unit     string // "" for a plain number
	Default  float64
	Min, Max float64 // both allowed
	Doc      string  // what it means and when to change it
}

// PolicyInfo is what the config must know of a placement policy.
type PolicyInfo struct {
	Params   []Param
	Rounds   bool          // it decides once per interval; the others at every sample
	Interval time.Duration // its default interval; 0: DefaultInterval
	Packets  bool          // it ranks by packets/s, so Worth.CPU applies
}

// AllocatorInfo is what others must know of a bandwidth allocator.
type AllocatorInfo struct {
	Doc    string        // what it does, in one line
	Period time.Duration // its default period: that of its paper, or of the program published with it, if there is one

	// What it goes by; it ignores the rest.
	Bits     bool // guarantees in bits/s
	Packets  bool // guarantees in packets/s
	Weights  bool // weights
	Minimums bool // minimums of classes

	PacketsByBits bool // a VM's packets/s are divided over its NICs by the bits that these send, not by the packets

	Always bool // it divides every link, also one of which nobody asks anything
	// Kernel says that what shares by itself (HTB trees of taps, VFs' minimum rates) shares as it does. Beside another law it would
	// decide instead of the allocator.
	Kernel bool
}

// VMRule is what a user wants for the VMs whose name or UUID matches.
type VMRule struct {
	Match    string   `json:"match"` // a UUID, or a shell pattern on the name: see Matches
	Pin      bool     `json:"pin,omitempty"`
	Forbid   bool     `json:"forbid,omitempty"`
	Weight   float64  `json:"weight,omitempty"` // multiplies the score; 0: 1
	Priority int      `json:"priority,omitempty"`
	Class    string   `json:"class,omitempty"`
	NIC      string   `json:"nic,omitempty"`      // which NICs may have a VF: shell pattern on alias, MAC or network; "": all that can
	Failover Failover `json:"failover,omitempty"` // "bond" if the guest has one; libvirt shows teaming by itself
	SLA      SLA      `json:"sla,omitzero"`       // of the NICs of the VM, or of those that SLANIC matches
	SLANIC   string   `json:"sla_nic,omitempty"`  // shell pattern on alias, MAC or network; "": each NIC
	ByHand   bool     `json:"by_hand,omitempty"`  // set by `sluice pin`, `release` or `sla set`, not by the config
	By       string   `json:"by,omitempty"`       // who set it, if ByHand

	Sensitivity Sensitivity `json:"latency_sensitivity,omitempty"` // multiplies the score as Worth says; no effect on shares of bandwidth
}

// Sample is a Snapshot, and when and by which rules it was decided on.
type Sample struct {
	Number   uint64    `json:"number"` // from 1, counted since the daemon started
	Snapshot *Snapshot `json:"snapshot"`
	Rules    Rules     `json:"rules"`
	Decided  time.Time `json:"decided"`
}

// View is everything that a user or program may ask the daemon. It is published after every tick and never changed afterwards.
// Status, metrics, explain and dashboard read it.
type View struct {
	Revision  uint64        `json:"revision"` // differs for every View, also across restarts of the daemon
	Snapshot  *Snapshot     `json:"snapshot"`
	Target    *Target       `json:"target"`
	Rules     Rules         `json:"rules"`
	Rounds    bool          `json:"rounds"` // the policy decides once per interval, not at every sample
	Mode      Mode          `json:"mode"`
	Pending   []Move        `json:"pending"` // what observe mode would do, or what waits for its turn
	Active    []MoveStatus  `json:"active"`  // moves under way
	Recent    []MoveStatus  `json:"recent"`  // the last finished ones, newest first
	Samples   []Sample      `json:"-"`       // the last few Snapshots decided on, newest last
	Findings  []Finding     `json:"findings"`
	Overrides []Override    `json:"overrides,omitempty"` // run-time requests that have not ended
	Totals    Totals        `json:"totals"`
	Bandwidth *Bandwidth    `json:"bandwidth,omitempty"`
	Started   time.Time     `json:"started"`
	Reloaded  time.Time     `json:"reloaded,omitzero"` // when other rules of the config were first decided by
	Tick      time.Duration `json:"tick"`              // duration of the last decide and plan
	Config    string        `json:"config"`
	Errors    []string      `json:"errors,omitempty"` // why the last observation or reload failed; one error can have several lines
}

// Carried returns what a link carries in bits/s, as far as that can be: nothing while the link is down, and no more than its
// driver's speed. The sum of what its NICs sent may be higher, because they are counted at different instants, keep their figures
// while they move from one link to another, and may send to each other inside the NIC.
func (v *View) Carried(l *LinkState) float64 {
	if v.linkDown(l.PF) {
		return 0
	}
	if most := cmp.Or(l.Carries.Speed, l.Speed); most > 0 {
		return min(l.Carried, float64(most))
	}
	return l.Carried
}

func (v *View) linkDown(name string) bool {
	if v.Snapshot == nil {
		return false
	}
	pf := v.Snapshot.FindPF(name)
	return pf != nil && !pf.LinkUp
}

// Mode is how far Sluice may go.
type Mode string

// Values of Mode.
const (
	ModeObserve Mode = "observe" // changes nothing, reports what it would do
	ModeEnforce Mode = "enforce"
)

// MoveStatus is a Move under way or finished.
type MoveStatus struct {
	ID      uint64     `json:"id,omitempty"` // counts the Moves since the start of the daemon, from 1
	Move    Move       `json:"move"`
	Step    int        `json:"step"` // index of the Step under way
	Try     int        `json:"try"`
	Undoing bool       `json:"undoing,omitempty"`
	Started time.Time  `json:"started"`
	Ended   time.Time  `json:"ended,omitzero"`
	Error   string     `json:"error,omitempty"`
	Times   []StepTime `json:"times,omitempty"` // of the Steps that began, in that order
}

// StepTime is when a Step of a Move was carried out, from the start of its first try.
type StepTime struct {
	Kind  StepKind  `json:"kind"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to,omitzero"` // zero: under way, or waiting for a retry
	Tries int       `json:"tries"`
	Undo  bool      `json:"undo,omitempty"`  // it undoes earlier Steps
	Error string    `json:"error,omitempty"` // of the last try that failed
}

// Totals count since the start of the daemon.
type Totals struct {
	Ticks       uint64        `json:"ticks"`
	Plugs       uint64        `json:"plugs"`
	Unplugs     uint64        `json:"unplugs"`
	Failed      uint64        `json:"failed"`
	Retries     uint64        `json:"retries"`
	Repairs     uint64        `json:"repairs"`
	LateSamples uint64        `json:"late_samples"`
	FailedHour  int           `json:"failed_hour"` // moves that failed in the last hour only
	PlugTime    time.Duration `json:"plug_time"`   // summed over successful plugs
	UnplugTime  time.Duration `json:"unplug_time"` // summed over successful unplugs
}
