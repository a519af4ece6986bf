package config

import (
	"time"

	"sluice/internal/model"
)

// Config is sluice.yaml with the defaults filled in. It is not changed after Load.
//
// docs/config.md says what each key means. The tags are the single source of what the loader accepts: yaml is the key, min and max the
// accepted range, enum the accepted words, default the value that an entry of a list gets if the key is absent. need is "yes" if an
// entry must have the key; doc then says what it is, in the error if it is absent. reload is "no" if a change of the value takes effect
// only after a restart.
type Config struct {
	Mode       model.Mode    `yaml:"mode" enum:"observe|enforce"`
	Sample     time.Duration `yaml:"sample" min:"100ms" max:"1m" reload:"no"`
	Policy     string        `yaml:"policy"`
	Interval   time.Duration `yaml:"interval" min:"1s" max:"24h"`
	Params     model.Params  `yaml:"params"`
	PFs        []PF          `yaml:"pfs"`
	VMs        []VM          `yaml:"vms"`
	Classes    []Class       `yaml:"classes"`
	Worth      Worth         `yaml:"worth"`
	Moves      Moves         `yaml:"moves"`
	Bandwidth  Bandwidth     `yaml:"bandwidth"`
	VirtualPFs VirtualPFs    `yaml:"virtual_pfs"`
	Libvirt    Libvirt       `yaml:"libvirt"`
	GuestAgent GuestAgent    `yaml:"guest_agent"`
	API        API           `yaml:"api"`
	StateDir   string        `yaml:"state_dir" reload:"no"`
	Log        Log           `yaml:"log"`

	files  []string
	pos    map[string]Pos
	always bool // the policy decides at every sample
	noCPU  bool // the policy does not score by packets/s

	allocators map[string]model.AllocatorInfo // all of them; nil: not known
}

// PF names one physical function and which of its VFs Sluice may assign.
type PF struct {
	Name    string `yaml:"name" need:"yes" doc:"network interface of the PF"`
	VFs     VFSet  `yaml:"vfs" default:"all"`
	Speed   Rate   `yaml:"speed"`
	VFRates string `yaml:"vf_rates" enum:"driver|none" default:"driver"`
	Network string `yaml:"network"`
}

// VM is one rule for the VMs whose name or UUID matches.
type VM struct {
	Match     string         `yaml:"match" need:"yes" doc:"shell pattern on the name of the VM, or a UUID"`
	Pin       bool           `yaml:"pin"`
	Forbid    bool           `yaml:"forbid"`
	Weight    float64        `yaml:"weight" min:"0.001" max:"1000"`
	Priority  int            `yaml:"priority" min:"-1000" max:"1000"`
	Class     string         `yaml:"class"`
	NIC       string         `yaml:"nic"`
	Failover  model.Failover `yaml:"failover" enum:"bond|teaming"`
	Guarantee Rate           `yaml:"guarantee"`
	Limit     Rate           `yaml:"limit"`
	Receive   Rate           `yaml:"receive"`
	Latency   Sensitivity    `yaml:"latency_sensitivity" enum:"low|normal|high"`
	SLANIC    string         `yaml:"sla_nic"`
}

// Class is a group of VMs that share weight, priority and SLA.
type Class struct {
	Name      string  `yaml:"name" need:"yes" doc:"the name by which rules refer to it"`
	Weight    float64 `yaml:"weight" min:"0.001" max:"1000"`
	Priority  int     `yaml:"priority" min:"-1000" max:"1000"`
	Guarantee Rate    `yaml:"guarantee"`
	Limit     Rate    `yaml:"limit"`
	Receive   Rate    `yaml:"receive"`

	Latency Sensitivity `yaml:"latency_sensitivity" enum:"low|normal|high"`
	Minimum Rate        `yaml:"minimum"`
}

// Sensitivity is the sensitivity to latency.
type Sensitivity = model.Sensitivity

// Worth configures the value of a packet.
type Worth struct {
	Latency     float64       `yaml:"latency" min:"1" max:"1000"`
	CPU         bool          `yaml:"cpu"`
	PacketCPU   time.Duration `yaml:"packet_cpu" min:"1ns" max:"1ms"`
	KilobyteCPU time.Duration `yaml:"kilobyte_cpu" min:"1ns" max:"1ms"`
}

// model converts w for placement.
func (w *Worth) model() model.Worth {
	return model.Worth{Latency: w.Latency, CPU: w.CPU, Cost: model.PacketCost{Packet: w.PacketCPU, Kilobyte: w.KilobyteCPU}}
}

// Moves limits how VFs are moved.
type Moves struct {
	Parallel      int           `yaml:"parallel" min:"1" max:"64"`
	Retries       int           `yaml:"retries" min:"0" max:"20"`
	PlugTimeout   time.Duration `yaml:"plug_timeout" min:"1s" max:"10m"`
	UnplugTimeout time.Duration `yaml:"unplug_timeout" min:"1s" max:"10m"`
	Backoff       time.Duration `yaml:"backoff" min:"1s" max:"24h"`
	BackoffMax    time.Duration `yaml:"backoff_max" min:"1s" max:"24h"`
}

// Libvirt selects the hypervisor.
type Libvirt struct {
	URI string `yaml:"uri" reload:"no"`
}

// GuestAgent limits the use of the QEMU guest agent.
type GuestAgent struct {
	Enabled bool          `yaml:"enabled" reload:"no"`
	Timeout time.Duration `yaml:"timeout" min:"100ms" max:"30s" reload:"no"`
	Every   time.Duration `yaml:"every" min:"1s" max:"10m" reload:"no"`
}

// API configures how clients reach the daemon.
type API struct {
	Socket  string `yaml:"socket" reload:"no"`
	Group   string `yaml:"group" reload:"no"`
	Operate string `yaml:"operate" reload:"no"`
	Own     string `yaml:"own" reload:"no"`
	Claims  string `yaml:"claims" reload:"no"`
	Ports   string `yaml:"ports" reload:"no"`
	Listen  string `yaml:"listen" reload:"no"`
	TLSCert string `yaml:"tls_cert" reload:"no"`
	TLSKey  string `yaml:"tls_key" reload:"no"`
	Tokens  string `yaml:"tokens" reload:"no"`
	Hosts   string `yaml:"hosts" reload:"no"`
}

// Log configures what is logged and how.
type Log struct {
	Level  string `yaml:"level" enum:"debug|info|warn|error"`
	Format string `yaml:"format" enum:"text|json" reload:"no"`
}

// Default returns the configuration of an empty sluice.yaml. The caller owns the result.
func Default() *Config {
	return &Config{
		Mode:     model.ModeObserve,
		Sample:   time.Second,
		Policy:   model.DefaultPolicy,
		Interval: model.DefaultInterval,
		Moves: Moves{
			Parallel: model.DefaultParallel, Retries: model.DefaultRetries,
			PlugTimeout: model.DefaultPlugTimeout, UnplugTimeout: model.DefaultUnplugTimeout,
			Backoff: model.DefaultBackoff, BackoffMax: model.DefaultBackoffMax,
		},
		Worth: Worth{Latency: model.DefaultLatencyWorth},
		Bandwidth: Bandwidth{
			Enabled: true, Allocator: "waterfill", Period: 100 * time.Millisecond, Tree: "auto", Overcommit: "refuse", Metadata: true, Stop: "keep",
		},
		Libvirt:    Libvirt{URI: "qemu:///system"},
		GuestAgent: GuestAgent{Enabled: true, Timeout: 2 * time.Second, Every: 5 * time.Second},
		API:        API{Socket: "/run/sluice/sluice.sock", Group: "sluice"},
		StateDir:   "/var/lib/sluice",
		Log:        Log{Level: "info", Format: "text"},
		pos:        map[string]Pos{},
	}
}

// Files returns the files that the configuration was read from, in order.
func (c *Config) Files() []string { return c.files }
