package metrics

import (
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

func newBandwidthMetrics(s *metricSet) {
	s.bwPeriod = s.gauge("bandwidth_period_seconds", "Time between two readings of the bandwidth controller.")
	s.bwTook = s.gauge("bandwidth_decide_duration_seconds",
		"What the last period of the bandwidth controller took: reading, deciding and applying.")
	s.bwChanges = s.counter("bandwidth_limit_changes_total", "Limits that were changed since the start.")
	s.bwLate = s.counter("bandwidth_late_periods_total", "Periods without readings since the start.")
	s.linkSpeed = s.gauge("link_speed_bytes_per_second", "Speed of the PF's link.", "pf")
	s.linkCapacity = s.gauge("link_capacity_bytes_per_second", "What the PF's link is seen to carry, and what is shared out.", "pf")
	s.linkSent = s.gauge("link_transmit_bytes_per_second", "What all NICs behind the PF sent in the last period, on the wire.", "pf")
	s.linkPromised = s.gauge("link_guaranteed_bytes_per_second", "Sum of what is promised of the PF's link.", "pf")
	s.linkOver = s.gauge("link_overcommitted", "1 while more of the PF's link is promised than there is.", "pf")
	nic := []string{"domain", "uuid", "target_device"}
	s.nicGuarantee = s.gauge("nic_guarantee_bytes_per_second", "What the NIC may always send, by its SLA.", nic...)
	s.nicGuaranteePackets = s.gauge("nic_guarantee_packets_per_second", "Packets that the NIC's VM may always send, by its SLA.", nic...)
	s.nicLimit = s.gauge("nic_limit_bytes_per_second", "What the NIC never sends more than, by its SLA.", nic...)
	s.nicAllowed = s.gauge("nic_allowed_bytes_per_second", "What the NIC may send at the moment; absent: it is not limited.", nic...)
	s.nicSent = s.gauge("nic_sent_bytes_per_second", "What the NIC sent in the last period on all paths, on the wire.", nic...)
	s.nicShort = s.gauge("nic_short_bytes_per_second",
		"What the NIC lacks of what it is promised while it asks for it; only of NICs with a guarantee.", nic...)
	s.nicShareInfo = s.gauge("nic_bandwidth_info", "Always 1; the label is the code of why the NIC is allowed what it is.", "domain", "uuid",
		"target_device", "code")
	s.policed = s.counter("nic_policed_packets_total",
		"Packets of the NIC that were dropped at its tap since it has been limited there, as they were above its limit.", "domain", "uuid",
		"target_device", "path", "direction")
	s.limitFailed = s.gauge("nic_limit_failed", "1 for a limit of the NIC that could not be applied.", "domain", "uuid", "target_device",
		"path", "direction", "enforcer")
}

// bandwidth emits the state of the bandwidth controller, if there is one.
func (e *emitter) bandwidth(x *answer.Index) {
	b := x.Bandwidth
	if b == nil {
		return
	}
	e.send(e.m.bwPeriod, b.Period.Seconds())
	e.send(e.m.bwTook, b.Took.Seconds())
	e.send(e.m.bwChanges, float64(b.Changes))
	e.send(e.m.bwLate, float64(b.Late))
	for i := range b.Links {
		l := &b.Links[i]
		e.send(e.m.linkSpeed, float64(l.Speed)/8, l.PF)
		e.send(e.m.linkCapacity, l.Capacity/8, l.PF)
		e.send(e.m.linkSent, l.Carried/8, l.PF)
		e.send(e.m.linkPromised, float64(l.Guaranteed.Bits)/8, l.PF)
		e.bool(e.m.linkOver, l.Over, l.PF)
	}
	for i := range b.NICs {
		n := &b.NICs[i]
		vm := x.Snapshot.FindVM(n.VM)
		if vm == nil {
			continue // gone since the last period
		}
		e.share(n, n.VMName, string(n.VM), deviceOf(vm, n.NIC))
	}
}

// deviceOf returns the tap of a NIC, or its alias.
func deviceOf(vm *model.VM, nic string) string {
	if n := vm.FindNIC(nic); n != nil {
		return device(n)
	}
	return nic
}

// share emits a NIC's bandwidth metrics, omitting those that are not set.
func (e *emitter) share(n *model.NICBandwidth, nic ...string) {
	some := func(m *metric, v, unit uint64) {
		if v > 0 {
			e.send(m, float64(v)/float64(unit), nic...)
		}
	}
	some(e.m.nicGuarantee, n.SLA.Guarantee.Bits, 8)
	some(e.m.nicGuaranteePackets, n.SLA.Guarantee.Packets, 1)
	some(e.m.nicLimit, n.SLA.Limit.Bits, 8)
	some(e.m.nicAllowed, n.Allowed.Bits, 8)
	if n.Sent.Proof != model.ProofNone {
		e.send(e.m.nicSent, n.Sent.Bits/8, nic...)
	}
	if !n.SLA.Guarantee.IsZero() {
		e.send(e.m.nicShort, float64(n.Short)/8, nic...)
	}
	if n.Code != "" {
		e.send(e.m.nicShareInfo, 1, nic[0], nic[1], nic[2], string(n.Code))
	}
	for i := range n.Enforcer {
		l := &n.Enforcer[i]
		if l.Path == model.PathVirtio {
			e.send(e.m.policed, float64(n.Dropped.Of(l.Dir)), nic[0], nic[1], nic[2], string(l.Path), string(l.Dir))
		}
		e.bool(e.m.limitFailed, l.Error != "", nic[0], nic[1], nic[2], string(l.Path), string(l.Dir), l.By)
	}
}
