package web

import (
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice/internal/model"
)

// Collector turns the latest View into metrics at every scrape. It remembers nothing,
// so a VM that is gone leaves no series behind.
//
// Labels follow the exporters people have beside it: domain, uuid and target_device as
// in the libvirt exporters, pf and vf as in the SR-IOV network metrics exporter.
type Collector struct {
	view    func() *model.View
	count   func(*model.View) int // problems
	version string
	m       metricSet
}

// NewCollector makes a collector of the View that view returns; problems counts what
// stands in the way (nil: those the Snapshot carries).
func NewCollector(view func() *model.View, version string, problems func(*model.View) int) *Collector {
	if problems == nil {
		problems = func(v *model.View) int {
			if v == nil || v.Snapshot == nil {
				return 0
			}
			return model.Problems(v.Snapshot.Problems)
		}
	}
	return &Collector{view: view, count: problems, version: version, m: newMetricSet()}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.m.all {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	v := c.view()
	x := newIndex(v)
	e := &emitter{ch: ch, m: &c.m}
	e.daemon(x, c.version, c.count(v))
	e.moves(x)
	for i := range x.Snapshot.PFs {
		e.pf(&x.Snapshot.PFs[i])
	}
	e.holders(x)
	for i := range x.Snapshot.VMs {
		e.vm(x, &x.Snapshot.VMs[i])
	}
}

// metricsHandler serves the collector of the backend's View. One bad series does not
// cost the others.
func metricsHandler(o Options) http.Handler {
	reg := prometheus.NewRegistry()
	view := func() *model.View { v, _ := o.Backend.View(); return v }
	count := func(v *model.View) int { return model.Problems(Diagnose(v, o.Examine, o.Now(), o.Stale)) }
	reg.MustRegister(NewCollector(view, o.Version, count))
	if o.Process {
		reg.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	}
	return &rendered{view: view, render: promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, DisableCompression: true,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	})}
}

// metric is one metric's description, for Prometheus and for docs/metrics.md.
type metric struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	name   string
	help   string
	labels []string
	times  bool // a sum of times and a count
}

// metricSet holds every metric there is.
type metricSet struct {
	all []*metric

	build, mode, policy, drain, degraded, start, seen, decide *metric
	ticks, late, plug, unplug, failed, retries, repairs       *metric
	active, pending, problems, findings                       *metric
	pfInfo, pfUp, pfVFs, vfInfo, vfHolder                     *metric
	vmInfo, holds, should, reason, score, cpu, known          *metric
	rxPackets, txPackets, rxBytes, txBytes                    *metric
}

func (s *metricSet) add(kind prometheus.ValueType, name, help string, labels ...string) *metric {
	m := &metric{desc: prometheus.NewDesc("sluice_"+name, help, labels, nil), kind: kind, name: "sluice_" + name, help: help, labels: labels}
	s.all = append(s.all, m)
	return m
}

func (s *metricSet) gauge(name, help string, labels ...string) *metric {
	return s.add(prometheus.GaugeValue, name, help, labels...)
}

func (s *metricSet) counter(name, help string) *metric {
	return s.add(prometheus.CounterValue, name, help)
}

// times is a summary without quantiles: a sum of seconds and a count.
func (s *metricSet) times(name, help string) *metric {
	m := s.add(prometheus.UntypedValue, name, help)
	m.times = true
	return m
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
	s.problems = s.gauge("problems", "Problems that sluice doctor lists.")
	s.findings = s.gauge("findings", "Leaked or wrongly set VFs that sluice fsck lists.", "code")
	s.pfInfo = s.gauge("pf_info", "Always 1; the labels describe the physical function.", "pf", "pci_address", "driver", "network", "numa_node")
	s.pfUp = s.gauge("pf_up", "1 while the physical function has a link.", "pf")
	s.pfVFs = s.gauge("pf_vfs", "Virtual functions by owner: free, sluice (held by a VM through Sluice) or foreign.", "pf", "owner")
	s.vfInfo = s.gauge("vf_info", "Always 1; the labels describe the virtual function.", "pf", "vf", "pci_address", "driver", "owner")
	s.vfHolder = s.gauge("vf_holder_info", "Always 1; names the VM that holds the VF and the tap beside it.", "pf", "vf", "pci_address", "domain", "uuid", "target_device")
	newVMMetrics(&s)
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
	path := []string{"domain", "uuid", "target_device", "path", "source", "proof"}
	s.rxPackets = s.gauge("nic_receive_packets_per_second", "What the guest receives on a path of its NIC.", path...)
	s.txPackets = s.gauge("nic_transmit_packets_per_second", "What the guest sends on a path of its NIC.", path...)
	s.rxBytes = s.gauge("nic_receive_bytes_per_second", "What the guest receives on a path of its NIC.", path...)
	s.txBytes = s.gauge("nic_transmit_bytes_per_second", "What the guest sends on a path of its NIC.", path...)
}

// emitter sends the samples of one scrape.
type emitter struct {
	ch chan<- prometheus.Metric
	m  *metricSet
}

// send drops what is no number: a series that is absent says more than NaN.
func (e *emitter) send(m *metric, value float64, labels ...string) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	e.ch <- prometheus.MustNewConstMetric(m.desc, m.kind, value, clean(labels)...)
}

func (e *emitter) bool(m *metric, value bool, labels ...string) {
	n := 0.0
	if value {
		n = 1
	}
	e.send(m, n, labels...)
}

func (e *emitter) sum(m *metric, n uint64, total time.Duration) {
	e.ch <- prometheus.MustNewConstSummary(m.desc, n, total.Seconds(), nil)
}

// clean makes label values valid: names come from outside.
func clean(labels []string) []string {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	return labels
}

// MetricsTable is the table of docs/metrics.md.
func MetricsTable() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, m := range newMetricSet().all {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.typeName(), strings.Join(m.labels, ", "), m.help)
	}
	return b.String()
}

func (m *metric) typeName() string {
	switch {
	case m.times:
		return "summary (sum and count)"
	case m.kind == prometheus.CounterValue:
		return "counter"
	}
	return "gauge"
}
