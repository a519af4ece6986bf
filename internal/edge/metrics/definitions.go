package metrics

// metric describes one metric, for Prometheus and for docs/metrics.md.
type metric struct {
	kind   string // its type in Prometheus' text format
	name   string
	help   string
	labels []string
}

// all are the metrics in the order of their definition.
var all []*metric

func define(kind, name, help string, labels []string) *metric {
	m := &metric{kind: kind, name: name, help: help, labels: labels}
	all = append(all, m)
	return m
}

func gauge(name, help string, labels ...string) *metric {
	return define("gauge", "sluice_"+name, help, labels)
}

func counter(name, help string, labels ...string) *metric {
	return define("counter", "sluice_"+name, help, labels)
}

// summary defines a summary without quantiles: a sum of seconds and a count.
func summary(name, help string) *metric { return define("summary", "sluice_"+name, help, nil) }

var (
	buildInfo     = gauge("build_info", "Always 1; the label carries the version.", "version")
	currentMode   = gauge("mode", "1 for the mode Sluice is in, 0 for the other.", "mode")
	policyInfo    = gauge("policy_info", "Always 1; the label names the placement policy.", "policy")
	draining      = gauge("draining", "1 while a drain lasts: all VFs are being taken back, and none is assigned.")
	degraded      = gauge("degraded", "1 while the last observation of the host or the last reload failed.")
	startTime     = gauge("start_time_seconds", "When the daemon started, as Unix time.")
	snapshotTime  = gauge("snapshot_timestamp_seconds", "When the host was last observed, as Unix time.")
	decideTook    = gauge("decide_duration_seconds", "Time the last decision and plan took.")
	ticks         = counter("ticks_total", "Decisions since the start.")
	lateSamples   = counter("late_samples_total", "Observations of the host that came too late to be used for rates.")
	plugTook      = summary("plug_duration_seconds", "Successful plugs of a VF and the time they took.")
	unplugTook    = summary("unplug_duration_seconds", "Successful unplugs of a VF and the time they took.")
	movesFailed   = counter("moves_failed_total", "Moves that were given up.")
	stepRetries   = counter("step_retries_total", "Steps that were tried again.")
	repairs       = counter("repairs_total", "Findings that were repaired.")
	movesActive   = gauge("moves_active", "Moves under way.", "kind")
	movesPending  = gauge("moves_pending", "Moves that are waiting; in observe mode, moves that would be made.", "kind")
	moveStart     = gauge("move_start_time_seconds", "When a move under way began, as Unix time.", "kind", "pf", "vf", "domain", "uuid")
	problemCount  = gauge("problems", "Problems that sluice doctor lists.")
	findingsCount = gauge("findings", "Leaked or misconfigured VFs that sluice fsck lists.", "code")
	findingInfo   = gauge("finding_info", "Always 1; the labels are the code and subject of one finding of sluice fsck.", "code", "subject")
)

var (
	pfInfo = gauge("pf_info", "Always 1; the labels describe the physical function.",
		"pf", "pci_address", "driver", "network", "numa_node")
	pfUp  = gauge("pf_up", "1 while the physical function has a link.", "pf")
	pfVFs = gauge("pf_vfs", "Virtual functions by owner: free, unusable (free, but no VM can get one now), sluice (held by a VM "+
		"through Sluice) or foreign.", "pf", "owner")

	vfInfo   = gauge("vf_info", "Always 1; the labels describe the virtual function.", "pf", "vf", "pci_address", "driver", "owner")
	vfHolder = gauge("vf_holder_info", "Always 1; the labels name the VM that holds the VF, and the tap of its virtio NIC.",
		"pf", "vf", "pci_address", "domain", "uuid", "target_device")
	vfInGuest = gauge("vf_in_guest", "1 while the guest that holds the VF uses it, 0 while it does not; absent: unknown.",
		"pf", "vf", "domain", "uuid")
)

var (
	vmInfo   = gauge("vm_info", "Always 1; the labels describe the VM.", "domain", "uuid", "class", "state")
	vmHolds  = gauge("vm_holds_vf", "1 while the VM has a VF.", "domain", "uuid")
	vmShould = gauge("vm_should_hold_vf", "1 while the policy says that the VM should have a VF.", "domain", "uuid")
	vmReason = gauge("vm_reason_info", "Always 1; the label is the code of the reason that sluice explain gives.", "domain", "uuid", "code")
	vmScore  = gauge("vm_score", "The policy's figure of merit, packets per second unless the policy says otherwise.", "domain", "uuid")
	vmCPU    = gauge("vm_cpu_ratio", "Host CPUs the VM uses, divided by its vCPUs.", "domain", "uuid")
	vmKnown  = gauge("vm_load_known", "1 while the VM's load is known on all its paths.", "domain", "uuid")
)

var (
	nicLabels  = []string{"domain", "uuid", "target_device"}
	pathLabels = []string{"domain", "uuid", "target_device", "path", "source", "proof"}

	nicVirtioUp = gauge("nic_virtio_up", "1 while the NIC's tap is up and in its bridge; absent: unknown.", nicLabels...)
	nicDenied   = gauge("nic_denied_packets_per_second",
		"Packets that the guest reports for its VF beyond what is believed; only where the guest is asked.", nicLabels...)
	nicRxPackets = gauge("nic_receive_packets_per_second", "Packets that the guest receives on a path of its NIC.", pathLabels...)
	nicTxPackets = gauge("nic_transmit_packets_per_second", "Packets that the guest sends on a path of its NIC.", pathLabels...)
	nicRxBytes   = gauge("nic_receive_bytes_per_second", "Bytes that the guest receives on a path of its NIC.", pathLabels...)
	nicTxBytes   = gauge("nic_transmit_bytes_per_second", "Bytes that the guest sends on a path of its NIC.", pathLabels...)

	totalLabels       = []string{"domain", "uuid", "target_device", "path"}
	nicRxPacketsTotal = counter("nic_receive_packets_total", "Packets that the guest received on a path of its NIC, by its known rates.",
		totalLabels...)
	nicTxPacketsTotal = counter("nic_transmit_packets_total", "Packets that the guest sent on a path of its NIC, by its known rates.",
		totalLabels...)
	nicRxBytesTotal = counter("nic_receive_bytes_total", "Bytes that the guest received on a path of its NIC, by its known rates.",
		totalLabels...)
	nicTxBytesTotal = counter("nic_transmit_bytes_total", "Bytes that the guest sent on a path of its NIC, by its known rates.",
		totalLabels...)
)

var (
	bandwidthPeriod = gauge("bandwidth_period_seconds", "Time between two readings of the bandwidth controller.")
	bandwidthTook   = gauge("bandwidth_decide_duration_seconds",
		"Time the bandwidth controller took for its last period: reading, deciding and applying.")
	limitChanges = counter("bandwidth_limit_changes_total", "Limits that were changed since the start.")
	latePeriods  = counter("bandwidth_late_periods_total", "Periods without readings since the start.")

	linkSpeed    = gauge("link_speed_bytes_per_second", "Speed of the PF's link.", "pf")
	linkCapacity = gauge("link_capacity_bytes_per_second", "What the PF's link is taken to carry.", "pf")
	linkSent     = gauge("link_transmit_bytes_per_second", "What all NICs behind the PF sent in the last period, on the wire: at most the "+
		"link's speed, and 0 while the link is down.", "pf")
	linkTxBytes = counter("link_transmit_bytes_total", "Bytes on the wire that all NICs behind the PF have sent, as far as it can carry them.",
		"pf")
	linkRxBytes = counter("link_receive_bytes_total",
		"Bytes on the wire that all NICs behind the PF have received, as far as it can carry them.", "pf")
	linkTxPackets = counter("link_transmit_packets_total", "Packets that all NICs behind the PF have sent, as far as it can carry them.", "pf")
	linkRxPackets = counter("link_receive_packets_total", "Packets that all NICs behind the PF have received, as far as it can carry them.",
		"pf")
	linkPromised = gauge("link_guaranteed_bytes_per_second", "Sum of the rates that are promised on the PF's link.", "pf")
	linkOver     = gauge("link_overcommitted", "1 while more is promised on the PF's link than it carries.", "pf")

	nicGuarantee        = gauge("nic_guarantee_bytes_per_second", "What the NIC is promised to be able to send, by its SLA.", nicLabels...)
	nicGuaranteePackets = gauge("nic_guarantee_packets_per_second", "Packets that the NIC's VM is promised to be able to send, by its SLA.",
		nicLabels...)
	nicLimit   = gauge("nic_limit_bytes_per_second", "The most that the NIC may send, by its SLA.", nicLabels...)
	nicAllowed = gauge("nic_allowed_bytes_per_second", "What the NIC may send at present; absent: it is not limited.", nicLabels...)
	nicSent    = gauge("nic_sent_bytes_per_second", "What the NIC sent in the last period on all paths, on the wire.", nicLabels...)
	nicShort   = gauge("nic_short_bytes_per_second",
		"How far the NIC is below what it is promised while it has demand; only for NICs with a guarantee.", nicLabels...)
	nicTakes = gauge("nic_takes_bytes_per_second",
		"What the NIC sends beyond what it is promised while others lack part of that on its link; only for those who take most.", nicLabels...)
	nicShareInfo = gauge("nic_bandwidth_info", "Always 1; the label is the code of the reason for the NIC's allowed rate.",
		"domain", "uuid", "target_device", "code")
	nicPoliced = counter("nic_policed_packets_total",
		"Packets of the NIC dropped above its limit, at its tap (virtio) or its VF's representor (vf), since it was first limited there.",
		"domain", "uuid", "target_device", "path", "direction")
	limitFailed = gauge("nic_limit_failed", "1 for a limit of the NIC that could not be applied.",
		"domain", "uuid", "target_device", "path", "direction", "enforcer")
)

var (
	vpfLabels = []string{"domain", "uuid", "virtual_pf"}

	vpfInfo = gauge("virtual_pf_info", "Always 1; the labels describe the virtual PF.",
		"domain", "uuid", "virtual_pf", "model", "backend", "network")
	vpfRunning   = gauge("virtual_pf_running", "1 while its VM runs, with all of its functions.", vpfLabels...)
	vpfGuarantee = gauge("virtual_pf_guarantee_bytes_per_second",
		"What all functions of the virtual PF together are promised to be able to send, by its SLA.", vpfLabels...)
	vpfLimit = gauge("virtual_pf_limit_bytes_per_second",
		"The most that all functions of the virtual PF together may send, by its SLA.", vpfLabels...)
	vpfAllowed = gauge("virtual_pf_allowed_bytes_per_second",
		"What all functions of the virtual PF together may send at present; absent: they are not limited.", vpfLabels...)
	vpfSent = gauge("virtual_pf_sent_bytes_per_second",
		"What all functions of the virtual PF sent in the last period, on the wire.", vpfLabels...)
	vpfShort = gauge("virtual_pf_short_bytes_per_second",
		"How far the virtual PF is below what it is promised while it has demand; only for those with a guarantee.", vpfLabels...)
	vpfTakes = gauge("virtual_pf_takes_bytes_per_second",
		"What the virtual PF sends beyond what it is promised while others lack part of that on its link; only for those who take most.",
		vpfLabels...)
)

var (
	vvfLabels = []string{"domain", "uuid", "virtual_pf", "vf"}

	vvfInfo = gauge("virtual_vf_info", "Always 1; the labels describe the virtual VF, or the PF itself, whose vf is pf.",
		"domain", "uuid", "virtual_pf", "vf", "target_device", "mac")
	vvfUp      = gauge("virtual_vf_link_up", "1 while QEMU gives the virtual VF a carrier; absent: its VM does not run.", vvfLabels...)
	vvfGranted = gauge("virtual_vf_granted", "1 while the virtual VF is granted to somebody in the guest.", vvfLabels...)
	vvfInForce = gauge("virtual_vf_policy_stands",
		"1 while the policy of the virtual VF is in force, as read back from the kernel; absent: its VM does not run.", vvfLabels...)
	vvfRxPackets = counter("virtual_vf_receive_packets_total",
		"Packets that the guest received on the virtual VF since its tap was created.", vvfLabels...)
	vvfTxPackets = counter("virtual_vf_transmit_packets_total",
		"Packets that the guest sent on the virtual VF since its tap was created, including those dropped.", vvfLabels...)
	vvfRxBytes = counter("virtual_vf_receive_bytes_total",
		"Bytes that the guest received on the virtual VF since its tap was created.", vvfLabels...)
	vvfTxBytes = counter("virtual_vf_transmit_bytes_total",
		"Bytes that the guest sent on the virtual VF since its tap was created, including those dropped.", vvfLabels...)
	vvfDropped = counter("virtual_vf_dropped_packets_total", "Packets of the virtual VF that the host dropped at its tap, "+
		"by reason: spoof, a source that it may not use; vlan, a tag that it may not use; rate, above its limit.",
		"domain", "uuid", "virtual_pf", "vf", "reason")
)

// These have the names of the standard metrics of Prometheus' client libraries.
var (
	processCPU    = define("counter", "process_cpu_seconds_total", "Processor time that the daemon has used.", nil)
	processMemory = define("gauge", "process_resident_memory_bytes", "Resident memory of the daemon.", nil)
	processFiles  = define("gauge", "process_open_fds", "Files that the daemon has open.", nil)
	goroutines    = define("gauge", "go_goroutines", "Goroutines of the daemon.", nil)
	heap          = define("gauge", "go_memstats_heap_inuse_bytes", "Memory in use by the daemon's Go heap.", nil)
)
