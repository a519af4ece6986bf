package scenario

import (
	"time"

	"sluice/internal/model"
	"sluice/internal/research/oracle"
)

// Result is the result of a comparison. Packets are summed over all hosts.
type Result struct {
	File     string        `json:"file,omitempty"`
	Text     string        `json:"text,omitempty"`
	Duration time.Duration `json:"duration_ns"`
	Sample   time.Duration `json:"sample_ns"`
	Origin   float64       `json:"origin_seconds"` // start of the run in the trace's own seconds
	Seed     int           `json:"seed"`
	Hosts    int           `json:"hosts"`
	VMs      int           `json:"vms"` // of one host
	VFs      int           `json:"vfs"`
	Charge   ChargeStat    `json:"charge"`
	Optimum  *OptimumStat  `json:"optimum,omitempty"`
	Policies []Outcome     `json:"policies"`
	Plot     *Plot         `json:"-"`

	Guaranteed *Guaranteed `json:"bandwidth,omitempty"` // instead of Policies, if allocators are compared

	Worth       bool `json:"packets_by_worth,omitempty"` // packets count by their value, not 1 each
	ShowHolders bool `json:"-"`                          // in the table
}

// ChargeStat is what a move costs in the score.
type ChargeStat struct {
	Swap float64 `json:"swap_seconds"` // of the receiver's benefit, for the optimum; for policies, the time that moves really take
	Risk float64 `json:"risk_packets"` // for each plug beyond the first of a VF, on average over the hosts
}

// OptimumStat is the gain of the best placement with knowledge of the future.
type OptimumStat struct {
	Free       BestStat      `json:"moves_free"`
	Charged    BestStat      `json:"moves_charged"`
	Resolution time.Duration `json:"resolution_ns"` // rates are averaged over this time
}

// BestStat is one optimum.
type BestStat struct {
	Value   float64 `json:"packets"`             // benefit minus charges
	Upper   float64 `json:"upper_bound_packets"` // no placement gains more; equal to Value if the search was exact
	Moves   int     `json:"moves"`
	Benefit float64 `json:"benefit_packets"`
}

// Outcome is the result of one policy.
type Outcome struct {
	Policy   string       `json:"policy"`
	Label    string       `json:"label"`
	Interval float64      `json:"interval_seconds"`
	Params   model.Params `json:"params,omitempty"`

	Gross        float64 `json:"gross_percent"` // benefit / optimum with free moves
	Net          float64 `json:"net_percent"`   // (benefit - risk x moves) / optimum with charged moves
	Benefit      float64 `json:"benefit_packets"`
	Plugs        int     `json:"plugs"`
	Unplugs      int     `json:"unplugs"`
	Moves        int     `json:"moves"` // plugs beyond the first of each VF
	Failed       uint64  `json:"failed_moves"`
	MovesPerHour float64 `json:"moves_per_hour_per_vm"`
	Busiest      VMStat  `json:"busiest_vm"` // the VM with most plugs
	Worst        VMStat  `json:"worst_vm"`   // the VM that lost most against the optimum
	OnVF         float64 `json:"on_vf"`      // share of VM-time with a VF

	Phases    []Phase    `json:"phases,omitempty"` // of the first host
	VMs       []VMStat   `json:"vms"`
	Decisions []Decision `json:"-"`
}

// VMStat is the result of one VM under a policy.
type VMStat struct {
	VM       string  `json:"vm"`
	Host     int     `json:"host,omitempty"`
	OnVF     float64 `json:"on_vf"`   // share of time
	Packets  float64 `json:"packets"` // wanted
	Carried  float64 `json:"carried"` // share carried by a VF
	Best     float64 `json:"best"`    // the same share with the charged optimum
	PlugRate float64 `json:"plugs_h"` // plugs per hour
	Plugs    int     `json:"plugs"`
}

// Plot is what a report draws about the first host.
type Plot struct {
	VMs    []string
	Groups []string
	Rates  [][]float64  // by bin, then VM: mean packets/s
	Logs   []oracle.Log // by policy, the charged optimum last
	Curves [][]float64  // packets carried by VFs in each bin, likewise
	Names  []string     // likewise
}

// bins is the resolution of plots.
const bins = 480
