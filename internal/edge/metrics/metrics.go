package metrics

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// Options are the inputs besides a View.
type Options struct {
	Version    string
	Examine    answer.Examine   // finds problems in a Snapshot; nil: only those the Snapshot contains
	Stale      time.Duration    // age above which the last observation of the host is a problem; 0: never
	Now        func() time.Time // the clock that Snapshots are stamped with
	VirtualPFs VirtualPFs       // nil: not available
	Process    bool             // also export metrics of the process and the Go runtime
}

// VirtualPFs lists the virtual PFs of all VMs.
type VirtualPFs interface {
	List(ctx context.Context) ([]model.VirtualPFStatus, error)
}

// Exporter writes Views in Prometheus' text format. It is stateless, so a VM that is gone leaves no series behind.
//
// Labels follow common exporters: domain, uuid and target_device as in the libvirt exporters, pf and vf as in the SR-IOV
// network metrics exporter.
type Exporter struct {
	opts Options
	set  metricSet
}

// New returns an Exporter.
func New(o Options) *Exporter { return &Exporter{opts: o, set: newMetricSet()} }

// ContentType is the media type of Text.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Text returns the metrics of a View.
func (x *Exporter) Text(v *model.View) []byte {
	o := &x.opts
	e := &emitter{m: &x.set, lines: map[*metric][]string{}}
	e.view(v, o.VirtualPFs, o.Version, model.Problems(answer.Diagnose(v, o.Examine, o.Now(), o.Stale)))
	if o.Process {
		e.process()
	}
	return e.text()
}

// view emits all metrics of a View.
func (e *emitter) view(v *model.View, virtual VirtualPFs, version string, problems int) {
	x := answer.NewIndex(v)
	e.daemon(x, version, problems)
	e.moves(x)
	for i := range x.Snapshot.PFs {
		e.pf(&x.Snapshot.PFs[i])
	}
	e.holders(x)
	for i := range x.Snapshot.VMs {
		e.vm(x, &x.Snapshot.VMs[i])
	}
	e.bandwidth(x)
	e.virtualPFs(x, virtual)
}

// metricSet holds all metrics.
type metricSet struct {
	all []*metric

	build, mode, policy, drain, degraded, start, seen, decide *metric
	ticks, late, plug, unplug, failed, retries, repairs       *metric
	active, pending, problems, findings                       *metric
	findingInfo, moveStart                                    *metric
	pfInfo, pfUp, pfVFs, vfInfo, vfHolder, vfInGuest          *metric
	vmInfo, holds, should, reason, score, cpu, known          *metric
	rxPackets, txPackets, rxBytes, txBytes, denied, virtioUp  *metric
	bwPeriod, bwTook, bwChanges, bwLate                       *metric
	linkSpeed, linkCapacity, linkSent, linkPromised, linkOver *metric
	nicGuarantee, nicGuaranteePackets, nicLimit, nicAllowed   *metric
	nicSent, nicShort, nicShareInfo, limitFailed, policed     *metric
	vpfInfo, vpfRunning, vpfGuarantee, vpfLimit, vpfAllowed   *metric
	vpfSent, vpfShort                                         *metric
	vvfInfo, vvfUp, vvfGranted, vvfStands, vvfDropped         *metric
	vvfRxPackets, vvfTxPackets, vvfRxBytes, vvfTxBytes        *metric
	processCPU, processMemory, processFiles, goroutines, heap *metric
}

func (s *metricSet) metric(kind kind, name, help string, labels ...string) *metric {
	m := &metric{kind: kind, name: name, help: help, labels: labels}
	s.all = append(s.all, m)
	return m
}

func (s *metricSet) gauge(name, help string, labels ...string) *metric {
	return s.metric(gauge, "sluice_"+name, help, labels...)
}

func (s *metricSet) counter(name, help string, labels ...string) *metric {
	return s.metric(counter, "sluice_"+name, help, labels...)
}

// times adds a summary without quantiles: a sum of seconds and a count.
func (s *metricSet) times(name, help string) *metric {
	return s.metric(summary, "sluice_"+name, help)
}

func newMetricSet() metricSet {
	s := metricSet{}
	s.build = s.gauge("build_info", "Always 1; the label carries the version.", "version")
	s.mode = s.gauge("mode", "1 for the mode Sluice is in, 0 for the other.", "mode")
	s.policy = s.gauge("policy_info", "Always 1; the label names the placement policy.", "policy")
	s.drain = s.gauge("draining", "1 while all VFs are being given up on command.")
	s.degraded = s.gauge("degraded", "1 while the last look at the host or the last reload failed.")
	s.start = s.gauge("start_time_seconds", "When the daemon started, as Unix time.")
	s.seen = s.gauge("snapshot_timestamp_seconds", "When the host was last looked at, as Unix time.")
	s.decide = s.gauge("decide_duration_seconds", "Time the last decision and plan took.")
	s.ticks = s.counter("ticks_total", "Decisions since the start.")
	s.late = s.counter("late_samples_total", "Looks at the host that came too late to be used for rates.")
	s.plug = s.times("plug_duration_seconds", "Successful plugs of a VF and the time they took.")
	s.unplug = s.times("unplug_duration_seconds", "Successful unplugs of a VF and the time they took.")
	s.failed = s.counter("moves_failed_total", "Moves that were given up.")
	s.retries = s.counter("step_retries_total", "Steps that were tried again.")
	s.repairs = s.counter("repairs_total", "Findings that were repaired.")
	s.active = s.gauge("moves_active", "Moves under way.", "kind")
	s.pending = s.gauge("moves_pending", "Moves that wait; in observe mode, that would be made.", "kind")
	s.moveStart = s.gauge("move_start_time_seconds", "When a move that is under way began, as Unix time.", "kind", "pf", "vf", "domain",
		"uuid")
	s.problems = s.gauge("problems", "Problems that sluice doctor lists.")
	s.findings = s.gauge("findings", "Leaked or wrongly set VFs that sluice fsck lists.", "code")
	s.findingInfo = s.gauge("finding_info", "Always 1; the labels name one thing that sluice fsck lists, and what it is about.", "code",
		"subject")
	s.pfInfo = s.gauge("pf_info", "Always 1; the labels describe the physical function.", "pf", "pci_address", "driver", "network",
		"numa_node")
	s.pfUp = s.gauge("pf_up", "1 while the physical function has a link.", "pf")
	s.pfVFs = s.gauge("pf_vfs", "Virtual functions by owner: free, sluice (held by a VM through Sluice) or foreign.", "pf", "owner")
	s.vfInfo = s.gauge("vf_info", "Always 1; the labels describe the virtual function.", "pf", "vf", "pci_address", "driver", "owner")
	s.vfHolder = s.gauge("vf_holder_info", "Always 1; names the VM that holds the VF and the tap beside it.", "pf", "vf", "pci_address",
		"domain", "uuid", "target_device")
	s.vfInGuest = s.gauge("vf_in_guest", "1 while the guest that holds the VF uses it, 0 while it does not; absent: not known.", "pf", "vf",
		"domain", "uuid")
	newVMMetrics(&s)
	newBandwidthMetrics(&s)
	newVPFMetrics(&s)
	newProcessMetrics(&s)
	return s
}

func newVMMetrics(s *metricSet) {
	s.vmInfo = s.gauge("vm_info", "Always 1; the labels describe the VM.", "domain", "uuid", "class", "state")
	s.holds = s.gauge("vm_holds_vf", "1 while the VM has a VF.", "domain", "uuid")
	s.should = s.gauge("vm_should_hold_vf", "1 while the policy says that the VM should have a VF.", "domain", "uuid")
	s.reason = s.gauge("vm_reason_info", "Always 1; the label is the code of the reason that sluice explain gives.", "domain", "uuid", "code")
	s.score = s.gauge("vm_score", "The policy's figure of merit, packets per second unless the policy says otherwise.", "domain", "uuid")
	s.cpu = s.gauge("vm_cpu_ratio", "Host CPUs the VM uses, divided by its vCPUs.", "domain", "uuid")
	s.known = s.gauge("vm_load_known", "1 while the VM's load is known on all its paths.", "domain", "uuid")
	s.virtioUp = s.gauge("nic_virtio_up", "1 while the NIC's tap is up and in its bridge; absent: not known.", "domain", "uuid",
		"target_device")
	s.denied = s.gauge("nic_denied_packets_per_second", "What the guest says of its VF beyond what is believed; only where it is asked.",
		"domain", "uuid", "target_device")
	path := []string{"domain", "uuid", "target_device", "path", "source", "proof"}
	s.rxPackets = s.gauge("nic_receive_packets_per_second", "What the guest receives on a path of its NIC.", path...)
	s.txPackets = s.gauge("nic_transmit_packets_per_second", "What the guest sends on a path of its NIC.", path...)
	s.rxBytes = s.gauge("nic_receive_bytes_per_second", "What the guest receives on a path of its NIC.", path...)
	s.txBytes = s.gauge("nic_transmit_bytes_per_second", "What the guest sends on a path of its NIC.", path...)
}

// Table returns the table of docs/metrics.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, m := range newMetricSet().all {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, strings.Join(m.labels, ", "), m.help)
	}
	return b.String()
}
