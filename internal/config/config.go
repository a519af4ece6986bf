package config

import (
	"time"

	"sluice/internal/model"
)

// Config is sluice.yaml with the defaults filled in. It is not changed after Load.
//
// The tags are the single source of what the loader accepts and of the table in docs/config.md: yaml is the key, min and
// max the accepted range, enum the accepted words, doc the meaning, default the value that an entry of a list gets if the
// key is absent. reload is "no" if a change of the value takes effect only after a restart.
type Config struct {
	Mode       model.Mode    `yaml:"mode" enum:"observe|enforce" doc:"'observe' changes nothing and says what it would do; 'enforce' moves VFs"`
	Sample     time.Duration `yaml:"sample" min:"100ms" max:"1m" reload:"no" doc:"time between two looks at the host"`
	Policy     string        `yaml:"policy" doc:"who gets the VFs: the name of a placement policy"`
	Interval   time.Duration `yaml:"interval" min:"1s" max:"24h" doc:"time between two rounds of policies that work in rounds; unset, vnraf takes 10s"`
	Params     model.Params  `yaml:"params" doc:"parameters of the policy, a number each; unset ones keep its default"`
	PFs        []PF          `yaml:"pfs" doc:"the physical functions whose VFs Sluice may hand out; fragments add to the list"`
	VMs        []VM          `yaml:"vms" doc:"rules for single VMs; for each field the first rule that matches and sets it wins; fragments add to the list"`
	Classes    []Class       `yaml:"classes" doc:"what the VMs of a class get where their rules say nothing; fragments add to the list"`
	Worth      Worth         `yaml:"worth" doc:"what a packet counts when VFs are shared out: see [policies.md](policies.md#what-a-packet-is-worth)"`
	Moves      Moves         `yaml:"moves" doc:"how VFs are moved"`
	Bandwidth  Bandwidth     `yaml:"bandwidth" doc:"how what VMs are guaranteed is kept: see [sla.md](sla.md)"`
	VirtualPFs VirtualPFs    `yaml:"virtual_pfs" doc:"SR-IOV in virtual machines: see [virtual-pf.md](virtual-pf.md)"`
	Libvirt    Libvirt       `yaml:"libvirt" doc:"the hypervisor"`
	GuestAgent GuestAgent    `yaml:"guest_agent" doc:"what to ask the QEMU guest agent, where the host cannot count by itself"`
	API        API           `yaml:"api" doc:"how to reach the daemon"`
	StateDir   string        `yaml:"state_dir" reload:"no" doc:"directory of the journal, of the list of PF filters that Sluice added, and of what 'sluice pin', 'release', 'sla set' and 'drain' asked for"`
	Log        Log           `yaml:"log" doc:"the log of the daemon on standard error"`

	files  []string
	pos    map[string]Pos
	always bool // the policy decides at every sample
	noCPU  bool // the policy does not score by packets/s
}

// PF names one physical function and which of its VFs Sluice may hand out.
type PF struct {
	Name    string `yaml:"name" need:"yes" doc:"network interface of the PF"`
	VFs     VFSet  `yaml:"vfs" default:"all" doc:"indices such as '0-3,6', or 'all'"`
	Speed   Rate   `yaml:"speed" doc:"what its link carries, such as '10Gbit', where that is less than its speed, or the kernel does not know that"`
	VFRates string `yaml:"vf_rates" enum:"driver|none" default:"driver" doc:"whether it limits what its VFs send: 'driver' believes its driver; 'none' is for a NIC that takes the setting and does not heed it"`
	Network string `yaml:"network" doc:"the bridge it leads to, as a check; unset: the bridge that the PF, or its bond, is a port of"`
}

// VM is one rule for the VMs whose name or UUID matches.
type VM struct {
	Match     string         `yaml:"match" need:"yes" doc:"shell pattern on the name of the VM, or a UUID"`
	Pin       bool           `yaml:"pin" doc:"always give it a VF"`
	Forbid    bool           `yaml:"forbid" doc:"never give it a VF"`
	Weight    float64        `yaml:"weight" min:"0.001" max:"1000" doc:"multiplies its score, and its share of the bandwidth that is left over; unset: 1"`
	Priority  int            `yaml:"priority" min:"-1000" max:"1000" doc:"a higher one goes first, whatever the score; unset: 0"`
	Class     string         `yaml:"class" doc:"the class it belongs to, shown beside it: one of 'classes', or any name where there are none"`
	NIC       string         `yaml:"nic" doc:"which of its NICs may have a VF: shell pattern on alias, MAC or network; unset: each one that can, and 'pin' then pins all of them"`
	Failover  model.Failover `yaml:"failover" enum:"bond|teaming" doc:"how the guest falls back to virtio: 'teaming' is net_failover in the guest, 'bond' a bond or a team that the guest makes; unset: what the XML in libvirt shows"`
	Guarantee Rate           `yaml:"guarantee" doc:"what it may always send, bits of each NIC and packets of the VM: '2Gbit 50kpps'"`
	Limit     Rate           `yaml:"limit" doc:"what it may never exceed in sending"`
	Receive   Rate           `yaml:"receive" doc:"what it may never exceed in receiving"`
	Latency   Sensitivity    `yaml:"latency_sensitivity" enum:"low|normal|high" doc:"how much its users mind that packets wait, which a VF spares them: a packet counts 'worth.latency' with 'high', as many times less with 'low'; unset: that of its class, else 'normal'"`
	SLANIC    string         `yaml:"sla_nic" doc:"which of its NICs 'guarantee', 'limit', 'receive' and 'weight' are about, as in 'nic'; the rule then has none of the other keys, and the VM may have further rules; unset: each of them"`
}

// Class is a group of VMs that share weight, priority and SLA.
type Class struct {
	Name      string  `yaml:"name" need:"yes" doc:"what rules call it"`
	Weight    float64 `yaml:"weight" min:"0.001" max:"1000" doc:"multiplies the scores of its VMs, and their shares of the bandwidth that is left over; unset: 1"`
	Priority  int     `yaml:"priority" min:"-1000" max:"1000" doc:"VMs of a class with a higher one go first, whatever the score, and keep their guarantees longest where more is guaranteed than there is; unset: 0"`
	Guarantee Rate    `yaml:"guarantee" doc:"as that of a rule, for each of its VMs"`
	Limit     Rate    `yaml:"limit" doc:"as that of a rule"`
	Receive   Rate    `yaml:"receive" doc:"as that of a rule"`

	Latency Sensitivity `yaml:"latency_sensitivity" enum:"low|normal|high" doc:"as that of a rule"`
	Minimum Rate        `yaml:"minimum" doc:"bits that the allocator 'dbavm' leaves each NIC of the class when a higher class needs more; unset: none"`
}

// Sensitivity is the sensitivity to latency.
type Sensitivity = model.Sensitivity

// Worth configures the value of a packet.
type Worth struct {
	Latency     float64       `yaml:"latency" min:"1" max:"1000" doc:"what a packet of a VM with high latency sensitivity counts; one with low counts as many times less"`
	CPU         bool          `yaml:"cpu" doc:"a packet counts by the CPU time that virtio costs the host for one of its size; one of 512 bytes counts 1"`
	PacketCPU   time.Duration `yaml:"packet_cpu" min:"1ns" max:"1ms" doc:"with 'cpu': that time for a packet of any size, such as '1500ns'; unset, with 'kilobyte_cpu': what 'sluice qualify --vm --save' measured"`
	KilobyteCPU time.Duration `yaml:"kilobyte_cpu" min:"1ns" max:"1ms" doc:"and for every 1,000 bytes of it"`
}

// model converts w for placement.
func (w *Worth) model() model.Worth {
	return model.Worth{Latency: w.Latency, CPU: w.CPU, Cost: model.PacketCost{Packet: w.PacketCPU, Kilobyte: w.KilobyteCPU}}
}

// Moves limits how VFs are moved.
type Moves struct {
	Parallel      int           `yaml:"parallel" min:"1" max:"64" doc:"VMs that may have a move under way at a time"`
	Retries       int           `yaml:"retries" min:"0" max:"20" doc:"further tries of a failed step before the move is given up"`
	PlugTimeout   time.Duration `yaml:"plug_timeout" min:"1s" max:"10m" doc:"deadline of each try to attach a VF, and then of each wait for the guest to use it"`
	UnplugTimeout time.Duration `yaml:"unplug_timeout" min:"1s" max:"10m" doc:"deadline of each request to give a VF up, and then of each wait until the device is gone"`
	Backoff       time.Duration `yaml:"backoff" min:"1s" max:"24h" doc:"pause for a VM after its first failed move; doubles each time"`
	BackoffMax    time.Duration `yaml:"backoff_max" min:"1s" max:"24h" doc:"longest pause"`
}

// Libvirt selects the hypervisor.
type Libvirt struct {
	URI string `yaml:"uri" reload:"no" doc:"libvirt of this host: qemu:///system, qemu:///session or test:///default, each also with +unix after the scheme and with ?socket=PATH"`
}

// GuestAgent limits the use of the QEMU guest agent.
type GuestAgent struct {
	Enabled bool          `yaml:"enabled" reload:"no" doc:"ask it at all; without it, VFs of drivers that do not count show no load"`
	Timeout time.Duration `yaml:"timeout" min:"100ms" max:"30s" reload:"no" doc:"longest wait for one answer"`
	Every   time.Duration `yaml:"every" min:"1s" max:"10m" reload:"no" doc:"time between two questions to one guest"`
}

// API configures how clients reach the daemon.
type API struct {
	Socket  string `yaml:"socket" reload:"no" doc:"unix socket; root may do everything through it"`
	Group   string `yaml:"group" reload:"no" doc:"group that may connect to the socket, and read; empty: root only"`
	Operate string `yaml:"operate" reload:"no" doc:"users and @groups, with commas between, that may also pin, release, drain, repair, and set SLAs and what virtual VFs may do; they must be in 'group'"`
	Own     string `yaml:"own" reload:"no" doc:"users and @groups that may do all that root may, also reload, and define virtual PFs; they must be in 'group'"`
	Listen  string `yaml:"listen" reload:"no" doc:"TCP address such as '127.0.0.1:9178' for a read-only API and metrics; empty: none"`
	Hosts   string `yaml:"hosts" reload:"no" doc:"names, with commas between, by which 'listen' may be asked; localhost and addresses always pass"`
}

// Log configures what is logged and how.
type Log struct {
	Level  string `yaml:"level" enum:"debug|info|warn|error" doc:"least severe level that is logged"`
	Format string `yaml:"format" enum:"text|json" reload:"no" doc:"'text' for people, 'json' for programs"`
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
		Worth:      Worth{Latency: model.DefaultLatencyWorth},
		Bandwidth:  DefaultBandwidth(),
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
