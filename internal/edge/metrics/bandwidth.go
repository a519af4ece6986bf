package metrics

import (
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// bandwidth emits the state of the bandwidth controller, if there is one.
func (e emitter) bandwidth(x *answer.Index) {
	b := x.Bandwidth
	if b == nil {
		return
	}
	e.send(bandwidthPeriod, b.Period.Seconds())
	e.send(bandwidthTook, b.Took.Seconds())
	e.send(limitChanges, float64(b.Changes))
	e.send(latePeriods, float64(b.Late))
	for i := range b.Links {
		l := &b.Links[i]
		e.send(linkSpeed, float64(l.Speed)/8, l.PF)
		e.send(linkCapacity, float64(l.Carries.Bits)/8, l.PF)
		e.send(linkSent, x.Carried(l)/8, l.PF)
		e.send(linkTxBytes, l.Total.TxBytes, l.PF)
		e.send(linkRxBytes, l.Total.RxBytes, l.PF)
		e.send(linkTxPackets, l.Total.TxPackets, l.PF)
		e.send(linkRxPackets, l.Total.RxPackets, l.PF)
		e.send(linkPromised, float64(l.Guaranteed.Bits)/8, l.PF)
		e.bool(linkOver, l.Over, l.PF)
	}
	for i := range b.NICs {
		n := &b.NICs[i]
		vm := x.Snapshot.FindVM(n.VM)
		if vm == nil {
			continue // gone since the last period
		}
		name := n.NIC
		if nic := vm.FindNIC(n.NIC); nic != nil {
			name = device(nic)
		}
		e.nicShare(n, n.VMName, string(n.VM), name)
	}
}

// shareMetrics are the metrics that a NIC and a virtual PF have both.
type shareMetrics struct{ guarantee, limit, allowed, sent, short, takes *metric }

// share emits what a NIC or a virtual PF is promised, allowed and sends, omitting what is not set.
func (e emitter) share(n *model.NICBandwidth, m shareMetrics, labels ...string) {
	for rate, bits := range map[*metric]uint64{m.guarantee: n.SLA.Guarantee.Bits, m.limit: n.SLA.Limit.Bits, m.allowed: n.Allowed.Bits} {
		if bits > 0 {
			e.send(rate, float64(bits)/8, labels...)
		}
	}
	if n.Takes > 0 {
		e.send(m.takes, float64(n.Takes)/8, labels...)
	}
	if n.Sent.Proof != model.ProofNone {
		e.send(m.sent, n.Sent.Bits/8, labels...)
	}
	if !n.SLA.Guarantee.IsZero() {
		e.send(m.short, float64(n.Short)/8, labels...)
	}
}

func (e emitter) nicShare(n *model.NICBandwidth, nic ...string) {
	e.share(n, shareMetrics{nicGuarantee, nicLimit, nicAllowed, nicSent, nicShort, nicTakes}, nic...)
	if n.SLA.Guarantee.Packets > 0 {
		e.send(nicGuaranteePackets, float64(n.SLA.Guarantee.Packets), nic...)
	}
	if n.Code != "" {
		e.send(nicShareInfo, 1, nic[0], nic[1], nic[2], string(n.Code))
	}
	for i := range n.Enforcer {
		l := &n.Enforcer[i]
		dropped := n.Dropped
		if l.Path == model.PathVF {
			dropped = n.DroppedVF
		}
		if l.Path == model.PathVirtio || l.Packets > 0 || dropped != (model.Dropped{}) { // a VF's limit in bits/s counts no drops
			e.send(nicPoliced, float64(dropped.Of(l.Dir)), nic[0], nic[1], nic[2], string(l.Path), string(l.Dir))
		}
		e.bool(limitFailed, l.Error != "", nic[0], nic[1], nic[2], string(l.Path), string(l.Dir), l.By)
	}
}
