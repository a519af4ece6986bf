package scenario

import (
	"cmp"
	"time"

	"sluice/internal/config"
	"sluice/internal/control/placement"
	"sluice/internal/model"
	"sluice/internal/research/sim"
	"sluice/internal/research/trace"
)

// Scenario is a scenario file with its defaults filled in. The tags are the only source of what the loader accepts and of the table in
// docs/sim.md.
type Scenario struct {
	Text      string        `yaml:"text" doc:"what it shows, in one line"`
	Assumes   string        `yaml:"assumes" doc:"what its model assumes"`
	Duration  time.Duration `yaml:"duration" min:"1s" max:"8760h" need:"yes" doc:"length of the run"`
	Sample    time.Duration `yaml:"sample" min:"100ms" max:"1h" doc:"time between two samples of the host"`
	Seed      int           `yaml:"seed" min:"0" max:"2000000000" doc:"seed of everything random"`
	Hosts     int           `yaml:"hosts" min:"1" max:"10000" doc:"independent hosts like this one, each with a seed of its own"`
	Parallel  int           `yaml:"parallel" min:"1" max:"1000" doc:"VMs that may be moved at a time"`
	PFs       []PF          `yaml:"pfs" doc:"physical functions with their VFs"`
	VMs       []Group       `yaml:"vms" doc:"groups of VMs"`
	Timeline  []Change      `yaml:"timeline" doc:"changes of load during the run, in order of time"`
	Timing    Timing        `yaml:"timing" doc:"how long moves take"`
	Failures  Failures      `yaml:"failures" doc:"what goes wrong"`
	Telemetry Telemetry     `yaml:"telemetry" doc:"how well loads are measured"`
	Links     []Link        `yaml:"links" doc:"times at which a PF has no link"`
	Faults    []Fault       `yaml:"faults" doc:"what happens to VFs, representors and switches, in order of time"`
	Worth     Worth         `yaml:"worth" doc:"the value of a packet, to policies and in the score; unset: 1"`
	Charge    Charge        `yaml:"charge" doc:"what a move costs in the score"`
	Policies  []Policy      `yaml:"policies" doc:"policies to compare"`
	Latency   Latency       `yaml:"latency" doc:"latency of a packet by path and rate; with path.virtio also by its utilisation"`
	Path      Path          `yaml:"path" doc:"capacity of the link and of the virtio path that VMs share; unset: every load is carried whole"`
	Show      Show          `yaml:"show" doc:"what the table shows besides the score"`
	Bandwidth Bandwidth     `yaml:"bandwidth" doc:"guarantees of bandwidth, and allocators to compare"`

	// Origin is the start of the run in a trace's own seconds.
	Origin float64

	file   string
	replay *Replay
	epoch  time.Time // when simulated time begins
	pos    map[string]config.Pos
}

// PF is a physical function.
type PF struct {
	Name    string  `yaml:"name" need:"yes" doc:"its name"`
	VFs     int     `yaml:"vfs" min:"0" max:"4096" need:"yes" doc:"VFs to share out"`
	Network string  `yaml:"network" doc:"network it is connected to"`
	NUMA    int     `yaml:"numa" min:"-1" max:"64" doc:"NUMA node"`
	Gbit    float64 `yaml:"gbit" min:"0.001" max:"1000" doc:"link speed in Gbit/s"`
	Uplink  string  `yaml:"uplink" enum:"bridge|representors|ovs|ovn" doc:"its switch; representors, ovn: of a NIC in mode switchdev"`
}

// Group is one VM, or several equal ones.
type Group struct {
	Name     string        `yaml:"name" need:"yes" doc:"name; with a count, numbers from 1 are appended"`
	Count    int           `yaml:"count" min:"1" max:"100000" doc:"how many"`
	Network  string        `yaml:"network" doc:"network of its NIC"`
	NUMA     int           `yaml:"numa" min:"-1" max:"64" doc:"NUMA node, -1 for none"`
	VCPUs    int           `yaml:"vcpus" min:"1" max:"1024" doc:"CPUs it has; unset: 1"`
	From     time.Duration `yaml:"from" doc:"when it arrives; unset: at the start"`
	Until    time.Duration `yaml:"until" doc:"when it departs; unset: never"`
	Load     Load          `yaml:"load" doc:"what it moves"`
	Pin      bool          `yaml:"pin" doc:"always a VF"`
	Forbid   bool          `yaml:"forbid" doc:"never a VF"`
	Weight   float64       `yaml:"weight" min:"0.001" max:"1000" doc:"multiplies its score"`
	Priority int           `yaml:"priority" min:"-1000" max:"1000" doc:"a higher one goes first"`
	Class    string        `yaml:"class" doc:"shown beside it"`

	Latency model.Sensitivity `yaml:"latency_sensitivity" enum:"low|normal|high" doc:"how much delays matter: the value of its packets"`

	NoDriver     bool          `yaml:"no_driver" doc:"the guest has no driver for VFs"`
	IgnoreUnplug bool          `yaml:"ignore_unplug" doc:"the guest never releases a VF"`
	NoPort       bool          `yaml:"no_port" doc:"it has no free PCIe port"`
	NoTeaming    bool          `yaml:"no_teaming" doc:"its NIC cannot fail over"`
	Blind        bool          `yaml:"blind" doc:"its load cannot be measured while it has a VF"`
	Plug         time.Duration `yaml:"plug" min:"1ms" max:"10m" doc:"its time of a plug; unset: that of timing"`
	PlugFails    float64       `yaml:"plug_fails" min:"0" max:"1" doc:"share of its plugs that fail"`

	Guarantee  config.Rate `yaml:"guarantee" doc:"what it is promised to be able to send: '10Gbit', '60kpps' or both"`
	Limit      config.Rate `yaml:"limit" doc:"what it may send at most"`
	Flows      int         `yaml:"flows" min:"1" max:"10000" doc:"flows that share a full link with those of others"`
	Blast      bool        `yaml:"blast" doc:"it sends regardless of loss: its share of a full link follows what it sends"`
	LimitShare float64     `yaml:"limit_share" min:"0" max:"1" doc:"the part of its limit that it sends while its load is nothing"`
	InGuest    bool        `yaml:"in_guest" doc:"limits can be set in its guest"`
	Lies       bool        `yaml:"lies" doc:"its guest lifts limits that are set in it"`

	Functions []Function `yaml:"functions" doc:"VFs of its virtual PF, through which it sends; guarantee and limit are for all together"`

	past *pastVM // what a recording knows of it
}

// Load is a shape with its parameters. Rates are packets per second.
type Load struct {
	Shape   string      `yaml:"shape" enum:"constant|on-off|pareto|diurnal|flash|duty|walk|trace" doc:"how it goes over time"`
	PPS     float64     `yaml:"pps" min:"0" max:"1e9" doc:"the rate, or the high one: when on, at the crest or peak; with 'diurnal' the mean"`
	Send    config.Rate `yaml:"send" doc:"instead of 'pps': bits/s on the wire, with preamble, gap and checksum"`
	SendLow config.Rate `yaml:"send_low" doc:"instead of 'low', likewise"`
	Low     float64     `yaml:"low" min:"0" max:"1e9" doc:"the low rate: when off, before and after a crowd"`
	Spread  float64     `yaml:"spread" min:"0" max:"1" doc:"VMs of the group differ by up to this share, evenly"`
	Jitter  float64     `yaml:"jitter" min:"0" max:"1" doc:"the load itself varies by up to this share, every second"`
	Packet  float64     `yaml:"packet" min:"1" max:"65535" doc:"bytes of a packet"`
	CPU     float64     `yaml:"cpu" min:"0" max:"1024" doc:"CPUs in use while there is traffic"`

	On      time.Duration `yaml:"on" doc:"'duty': length of the high part; 'on-off', 'pareto': its mean"`
	Off     time.Duration `yaml:"off" doc:"likewise of the low part; 'walk': mean time at one level"`
	Alpha   float64       `yaml:"alpha" min:"1.01" max:"10" doc:"'pareto': exponent of the tail"`
	Phase   time.Duration `yaml:"phase" doc:"'duty' and compute_on: as if this much time had passed; 'diurnal': time of the crest"`
	Stagger time.Duration `yaml:"stagger" doc:"added to the phase of each further VM of the group"`
	Period  time.Duration `yaml:"period" min:"1s" doc:"'diurnal': length of a day" max:"8760h"`
	Swing   float64       `yaml:"swing" min:"0" max:"1" doc:"'diurnal': share of the mean that it swings by"`
	At      time.Duration `yaml:"at" doc:"'flash': when the crowd comes"`
	Rise    time.Duration `yaml:"rise" doc:"'flash': time to the peak"`
	Hold    time.Duration `yaml:"hold" doc:"'flash': time at the peak"`
	Fall    time.Duration `yaml:"fall" doc:"'flash': time constant of the decay"`
	File    string        `yaml:"file" doc:"'trace': the file, from the scenario's directory"`
	VM      string        `yaml:"vm" doc:"'trace': the VM in it; unset: each VM of the group takes the next"`

	Compute    float64       `yaml:"compute" min:"0" max:"1024" doc:"CPUs in use by work besides the network, while it runs"`
	ComputeOn  time.Duration `yaml:"compute_on" doc:"length of that work; unset: all the time"`
	ComputeOff time.Duration `yaml:"compute_off" doc:"length of the pause after it"`
	Contention float64       `yaml:"contention" min:"0" max:"1" doc:"share of the packets lost while that work runs"`

	CopyMB float64 `yaml:"copy_mb" min:"0" max:"1e9" doc:"it stops once so many million bytes are carried; the score ignores this"`

	set *trace.Set
}

// Change gives VMs another load from some time on.
type Change struct {
	At   time.Duration `yaml:"at" need:"yes" doc:"time since the start"`
	VMs  string        `yaml:"vms" need:"yes" doc:"shell pattern on the name, or the name of a group"`
	Load Load          `yaml:"load" doc:"what they move from then on"`
}

// Timing is how long moves take.
type Timing struct {
	Plug   time.Duration `yaml:"plug" min:"1ms" max:"10m" doc:"mean time of a plug"`
	Unplug time.Duration `yaml:"unplug" min:"1ms" max:"10m" doc:"mean time of an unplug"`
	Spread float64       `yaml:"spread" min:"0" max:"1" doc:"each move differs by up to this share, evenly"`
}

// Failures are probabilities.
type Failures struct {
	Step float64 `yaml:"step" min:"0" max:"1" doc:"share of steps that fail when first tried"`
	Plug float64 `yaml:"plug" min:"0" max:"1" doc:"share of plugs in which the guest does not open the VF"`
}

// Telemetry distorts how loads are seen.
type Telemetry struct {
	Noise     float64    `yaml:"noise" min:"0" max:"1" doc:"standard deviation as a share of the rate"`
	Exact     bool       `yaml:"exact" doc:"show the present rate, not, as counters and with noise, that of the sample before"`
	Blackouts []Blackout `yaml:"blackouts" doc:"times at which loads are not seen"`
}

// Blackout hides loads for a while.
type Blackout struct {
	At  time.Duration `yaml:"at" need:"yes" doc:"when it begins"`
	For time.Duration `yaml:"for" need:"yes" doc:"how long it lasts"`
	VMs string        `yaml:"vms" doc:"shell pattern on the name; unset: all"`
}

// Link is a time without link.
type Link struct {
	PF  string        `yaml:"pf" need:"yes" doc:"the PF"`
	At  time.Duration `yaml:"at" need:"yes" doc:"when it goes down"`
	For time.Duration `yaml:"for" need:"yes" doc:"how long"`
}

// Worth is the value of a packet, as worth in sluice.yaml.
type Worth struct {
	Latency     float64       `yaml:"latency" min:"1" max:"1000" doc:"factor for latency_sensitivity high; for low, divided by it"`
	PacketCPU   time.Duration `yaml:"packet_cpu" min:"1ns" max:"1ms" doc:"host CPU time of a packet on virtio; unset: CPU does not count"`
	KilobyteCPU time.Duration `yaml:"kilobyte_cpu" min:"1ns" max:"1ms" doc:"and for every 1,000 bytes of it"`
}

// Charge is what a move costs in the score.
type Charge struct {
	Swap time.Duration `yaml:"swap" min:"1ms" max:"10m" doc:"time in which nobody uses a VF that moves, for the optimum"`
	Risk time.Duration `yaml:"risk" min:"1ms" max:"1h" doc:"a plug costs the packets of this time at the median rate"`
	Free bool          `yaml:"free" doc:"a plug costs nothing but time"`
}

// Policy is one policy to compare.
type Policy struct {
	Name     string        `yaml:"name" need:"yes" doc:"name of the policy"`
	Label    string        `yaml:"label" doc:"what the table calls it"`
	Interval time.Duration `yaml:"interval" min:"100ms" max:"24h" doc:"time between two of its rounds"`
	Params   model.Params  `yaml:"params" doc:"its parameters"`
}

// Latency is a model of a packet's latency, after FlexVF's figure 5: the share that a VF saves grows linearly with the packet rate. If the
// virtio path has a capacity, packets on it also queue as in an M/M/1 queue: the latency is that of an idle path divided by the idle share
// of the path, and at most mostQueue times as long.
type Latency struct {
	VF      time.Duration `yaml:"vf" doc:"with a VF, at any rate; if set, the table shows latencies"`
	Boost   float64       `yaml:"boost" min:"0" max:"99" doc:"percent that a VF saves at rate 0"`
	PerKpps float64       `yaml:"per_kpps" min:"0" max:"10" doc:"percent more for each 1,000 packets/s"`
	Most    float64       `yaml:"most" min:"0" max:"99" doc:"and at most this"`
}

// Path is a model of what VMs share: the virtio path's packets and the link's bits, each shared max-min fairly.
type Path struct {
	Virtio   float64 `yaml:"virtio" min:"0" max:"1e9" doc:"packets/s that the host's virtio path carries for all VMs together; unset: any"`
	VirtioVM float64 `yaml:"virtio_vm" min:"0" max:"1e9" doc:"packets/s for one VM on virtio; unset: any"`
	VFVM     float64 `yaml:"vf_vm" min:"0" max:"1e9" doc:"packets/s for one VM on a VF; unset: any"`
	Gbit     float64 `yaml:"gbit" min:"0" max:"1000" doc:"Gbit/s of the link for all; unset: any"`
	Overhead float64 `yaml:"virtio_overhead" min:"0" max:"1e9" doc:"packets/s by which each VM on virtio, even idle, takes from 'virtio'"`
}

// Show asks for more tables.
type Show struct {
	Holders bool `yaml:"holders" doc:"who has a VF at the end of each phase (a phase ends where the timeline changes something)"`
	Groups  bool `yaml:"groups" doc:"time on VF, rate and latency by group and phase"`
	Scores  bool `yaml:"scores" doc:"the policy's score of each VM at the end of each phase"`
	CPU     bool `yaml:"cpu" doc:"with scores: io_degree of each VM, VNRAF's measure of CPU use"`
	All     bool `yaml:"all" doc:"rate, latency and files of all VMs by phase; phases then also end where VMs come or go"`
	// FileMB adds how long a file takes to the groups' table.
	FileMB float64 `yaml:"file_mb" min:"0" max:"1e9" doc:"with groups or all: how long a file of so many million bytes takes, one a minute"`
}

// defaults returns an empty Scenario with its defaults.
func defaults() *Scenario {
	return &Scenario{
		epoch: epoch, Sample: time.Second, Seed: 1, Hosts: 1, Parallel: 4,
		Worth:  Worth{Latency: model.DefaultLatencyWorth},
		Timing: Timing{Plug: 640 * time.Millisecond, Unplug: 56 * time.Millisecond},
		Charge: Charge{Swap: 696 * time.Millisecond, Risk: 10 * time.Second},
	}
}

// fill fills in the defaults of list entries, which begin empty.
func (s *Scenario) fill() {
	for i := range s.PFs {
		p := &s.PFs[i]
		p.Network, p.Uplink = cmp.Or(p.Network, defaultNetwork), cmp.Or(p.Uplink, string(sim.Bridge))
		p.Gbit = cmp.Or(p.Gbit, 10)
	}
	for i := range s.VMs {
		g := &s.VMs[i]
		g.Count, g.Network = cmp.Or(g.Count, 1), cmp.Or(g.Network, defaultNetwork)
		if _, set := s.pos[keyOf("vms", i)+".numa"]; !set {
			g.NUMA = -1
		}
		g.Flows = cmp.Or(g.Flows, 1)
		g.Load.fill()
		g.fillFunctions()
	}
	s.Bandwidth.fill()
	for i := range s.Timeline {
		s.Timeline[i].Load.fill()
	}
	for i := range s.Policies {
		p := &s.Policies[i]
		p.Interval = cmp.Or(p.Interval, placement.Interval(p.Name))
		p.Label = cmp.Or(p.Label, p.Name)
	}
}

func (l *Load) fill() {
	l.Shape = cmp.Or(l.Shape, "constant")
	if l.Send.Bits > 0 {
		l.Packet = cmp.Or(l.Packet, 1500)
		l.PPS, l.Low = float64(l.Send.Bits)/8/(l.Packet+sim.Overhead), float64(l.SendLow.Bits)/8/(l.Packet+sim.Overhead)
	}
	l.Packet = cmp.Or(l.Packet, 512)
	l.Alpha = cmp.Or(l.Alpha, 1.5)
	l.Period = cmp.Or(l.Period, 24*time.Hour)
	l.Rise, l.Hold, l.Fall = cmp.Or(l.Rise, 10*time.Second), cmp.Or(l.Hold, time.Minute), cmp.Or(l.Fall, time.Minute)
}

const defaultNetwork = "br0"
