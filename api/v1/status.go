package api

import "time"

// Status is what `sluice status` shows: GET /v1/status.
type Status struct {
	Revision uint64    `json:"revision"` // of the published state that this and all other answers show
	Version  string    `json:"version,omitempty"`
	Mode     string    `json:"mode"` // ModeObserve or ModeEnforce
	Policy   string    `json:"policy"`
	Interval float64   `json:"interval_seconds"` // between two rounds of a policy that works in rounds
	Rounds   bool      `json:"rounds"`           // the policy decides once per interval, not at every sample
	Drain    bool      `json:"drain"`            // all VFs are being taken back
	Drained  *Override `json:"drained,omitempty"`
	// Overrides counts what users requested at run time: GET /v1/overrides lists them.
	Overrides int          `json:"overrides"`
	Config    string       `json:"config,omitempty"` // path of sluice.yaml
	Started   time.Time    `json:"started"`          // when the daemon started
	Uptime    float64      `json:"uptime_seconds"`   // by the monotonic clock
	Observed  time.Time    `json:"observed"`         // when the host was last observed; zero: not yet
	Age       float64      `json:"observed_age_seconds"`
	Error     string       `json:"error,omitempty"` // why the last observation of the host or the last reload failed
	PFs       []PFStatus   `json:"pfs"`
	VFs       VFCounts     `json:"vfs"`
	VMs       VMCounts     `json:"vms"`
	Load      LoadSum      `json:"load"`
	Moves     MoveCounts   `json:"moves"`
	Bandwidth ShareCounts  `json:"bandwidth"`
	Recent    []MoveReport `json:"recent"`   // the last that ended, newest first
	Problems  int          `json:"problems"` // GET /v1/doctor lists them
	Findings  int          `json:"findings"` // GET /v1/fsck lists them
}

// PFStatus is one physical function and how its VFs are used.
type PFStatus struct {
	Name         string   `json:"pf"`
	Address      string   `json:"pci_address"`
	Driver       string   `json:"driver"`
	Network      string   `json:"network"`                // the bridge it is a port of, or its label in sluice.yaml
	Representors bool     `json:"representors,omitempty"` // each of its VFs has a port of its own in the switch, as in mode switchdev
	Uplink       string   `json:"uplink,omitempty"`       // how frames are steered to its VFs; absent: they are not (GET /v1/doctor)
	Why          string   `json:"why,omitempty"`          // why no VM can use its VFs, whatever its link; "" if VMs can
	Remedy       string   `json:"remedy,omitempty"`       // what a user can do about that
	LinkUp       bool     `json:"link_up"`
	Carries      Capacity `json:"carries"` // what its link is said to carry; GET /v1/bandwidth has what is inferred, too
	Managed      bool     `json:"managed"` // sluice.yaml lists it
	VFs          VFCounts `json:"vfs"`
}

// VFCounts counts VFs by owner.
type VFCounts struct {
	Total   int `json:"total"`
	Held    int `json:"held"` // by VMs, through Sluice
	Free    int `json:"free"`
	Foreign int `json:"foreign"` // held by others
	// Unusable counts the free ones that no VM can get now: sluice.yaml does not list their PF, its link is down, or frames
	// cannot be steered to its VFs.
	Unusable int `json:"unusable,omitempty"`
}

// VMCounts counts VMs.
type VMCounts struct {
	Total   int `json:"total"`
	Running int `json:"running"`
	Holding int `json:"holding"`      // have a VF
	Foreign int `json:"foreign"`      // of those: with a VF that was not assigned by Sluice
	Wanting int `json:"should_hold"`  // the policy says they should have one
	Vetoed  int `json:"vetoed"`       // must not be given a VF or lose one
	Unknown int `json:"load_unknown"` // running with unknown load
}

// LoadSum adds up the known loads.
type LoadSum struct {
	PPS     float64 `json:"packets_per_second"`
	Bytes   float64 `json:"bytes_per_second"`
	VFShare float64 `json:"vf_share"` // share of the packets that VMs with a VF move; 0..1
}

// ShareCounts counts NICs by what they are promised: GET /v1/bandwidth lists them.
type ShareCounts struct {
	Guaranteed int    `json:"guaranteed"`      // have a guarantee
	Short      int    `json:"short"`           // get less than they are promised although they have demand
	Limited    int    `json:"limited"`         // are limited at the moment
	Links      int    `json:"overcommitted"`   // links that are overcommitted
	Taker      string `json:"taker,omitempty"` // the VM that has most of what others lack beyond what it is promised itself
}

// MoveCounts counts moves, since the daemon started unless stated otherwise.
type MoveCounts struct {
	Active      int     `json:"active"`  // now
	Pending     int     `json:"pending"` // now; in observe mode: what would be done
	Plugs       uint64  `json:"plugs"`
	Unplugs     uint64  `json:"unplugs"`
	Failed      uint64  `json:"failed"`
	FailedHour  int     `json:"failed_last_hour"`
	Retries     uint64  `json:"retries"`
	Repairs     uint64  `json:"repairs"`
	PlugMean    float64 `json:"plug_mean_seconds"`
	UnplugMean  float64 `json:"unplug_mean_seconds"`
	LateSamples uint64  `json:"late_samples"` // observations of the host that came too late to be used
}
