package metrics

import (
	"context"
	"strconv"
	"time"

	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

func newVPFMetrics(s *metricSet) {
	pf := []string{"domain", "uuid", "virtual_pf"}
	s.vpfInfo = s.gauge("virtual_pf_info", "Always 1; the labels describe the virtual PF.", "domain", "uuid", "virtual_pf", "model", "backend",
		"network")
	s.vpfRunning = s.gauge("virtual_pf_running", "1 while its VM runs, with all of its functions.", pf...)
	s.vpfGuarantee = s.gauge("virtual_pf_guarantee_bytes_per_second",
		"What all functions of the virtual PF may always send together, by its SLA.", pf...)
	s.vpfLimit = s.gauge("virtual_pf_limit_bytes_per_second",
		"What all functions of the virtual PF never send more than together, by its SLA.", pf...)
	s.vpfAllowed = s.gauge("virtual_pf_allowed_bytes_per_second",
		"What all functions of the virtual PF may send at the moment; absent: they are not limited.", pf...)
	s.vpfSent = s.gauge("virtual_pf_sent_bytes_per_second", "What all functions of the virtual PF sent in the last period, on the wire.",
		pf...)
	s.vpfShort = s.gauge("virtual_pf_short_bytes_per_second",
		"What the virtual PF lacks of what it is promised while it asks for it; only of those with a guarantee.", pf...)
	vf := []string{"domain", "uuid", "virtual_pf", "vf"}
	s.vvfInfo = s.gauge("virtual_vf_info", "Always 1; the labels describe the virtual VF, or the PF itself, whose vf is pf.", "domain", "uuid",
		"virtual_pf", "vf", "target_device", "mac")
	s.vvfUp = s.gauge("virtual_vf_link_up", "1 while QEMU gives the virtual VF a carrier; absent: its VM does not run.", vf...)
	s.vvfGranted = s.gauge("virtual_vf_granted", "1 while somebody in the guest has the virtual VF.", vf...)
	s.vvfStands = s.gauge("virtual_vf_policy_stands",
		"1 while the policy of the virtual VF was read back as it should be; absent: its VM does not run.", vf...)
	s.vvfRxPackets = s.counter("virtual_vf_receive_packets_total", "What the guest received on the virtual VF since its tap was made.", vf...)
	s.vvfTxPackets = s.counter("virtual_vf_transmit_packets_total",
		"What the guest sent on the virtual VF since its tap was made, with what was dropped of it.", vf...)
	s.vvfRxBytes = s.counter("virtual_vf_receive_bytes_total", "What the guest received on the virtual VF since its tap was made.", vf...)
	s.vvfTxBytes = s.counter("virtual_vf_transmit_bytes_total",
		"What the guest sent on the virtual VF since its tap was made, with what was dropped of it.", vf...)
	s.vvfDropped = s.counter("virtual_vf_dropped_packets_total",
		"Packets of the virtual VF that the host dropped at its tap: spoof, of a source that it may not use; vlan, with a tag that it may not use; rate, above its limit.", "domain", "uuid", "virtual_pf", "vf", "reason")
}

// listWithin is the timeout for querying the controller of virtual PFs, which answers from memory.
const listWithin = time.Second

// virtualPFs emits the state of the controller of virtual PFs, if there is one.
func (e *emitter) virtualPFs(x *answer.Index, of VirtualPFs) {
	if of == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), listWithin)
	defer cancel()
	list, err := of.List(ctx)
	if err != nil {
		return // omitted, like everything unknown
	}
	for i := range list {
		e.virtualPF(x, &list[i])
	}
}

func (e *emitter) virtualPF(x *answer.Index, p *model.VirtualPFStatus) {
	pf := []string{p.VMName, string(p.VM), p.Name}
	e.send(e.m.vpfInfo, 1, p.VMName, string(p.VM), p.Name, string(p.Model), string(p.Backend), p.Network)
	e.bool(e.m.vpfRunning, p.Running, pf...)
	b := answer.BandwidthOf(x.View)
	for i := range b.VirtualPFs {
		if n := &b.VirtualPFs[i]; n.VM == p.VM && n.VirtualPF == p.Name {
			e.shareOfVirtualPF(n, pf)
		}
	}
	for i := range p.Functions {
		e.function(x, p, &p.Functions[i])
	}
}

// shareOfVirtualPF emits a virtual PF's bandwidth metrics, omitting those that are not set.
func (e *emitter) shareOfVirtualPF(n *model.NICBandwidth, pf []string) {
	for _, one := range []struct {
		m    *metric
		bits uint64
	}{{e.m.vpfGuarantee, n.SLA.Guarantee.Bits}, {e.m.vpfLimit, n.SLA.Limit.Bits}, {e.m.vpfAllowed, n.Allowed.Bits}} {
		if one.bits > 0 {
			e.send(one.m, float64(one.bits)/8, pf...)
		}
	}
	if n.Sent.Proof != model.ProofNone {
		e.send(e.m.vpfSent, n.Sent.Bits/8, pf...)
	}
	if !n.SLA.Guarantee.IsZero() {
		e.send(e.m.vpfShort, float64(n.Short)/8, pf...)
	}
}

// function emits the metrics of a function, omitting those that are unknown while its VM is not running.
func (e *emitter) function(x *answer.Index, p *model.VirtualPFStatus, f *model.FunctionStatus) {
	name := "pf"
	if f.VF >= 0 {
		name = strconv.Itoa(f.VF)
	}
	vf := []string{p.VMName, string(p.VM), p.Name, name}
	e.send(e.m.vvfInfo, 1, p.VMName, string(p.VM), p.Name, name, f.Tap, f.MAC.String())
	e.bool(e.m.vvfGranted, f.Owner != "", vf...)
	if f.Carrier == model.Unknown {
		return
	}
	e.bool(e.m.vvfUp, f.Carrier == model.Yes, vf...)
	e.bool(e.m.vvfStands, f.Stands, vf...)
	for reason, n := range map[string]uint64{"spoof": f.Drops.Spoof, "vlan": f.Drops.VLAN, "rate": f.Drops.Rate} {
		e.send(e.m.vvfDropped, float64(n), p.VMName, string(p.VM), p.Name, name, reason)
	}
	vm := x.Snapshot.FindVM(p.VM)
	if vm == nil {
		return
	}
	if nic := vm.FindNIC(f.Alias); nic != nil && nic.Moved != nil {
		e.send(e.m.vvfRxPackets, float64(nic.Moved.RxPackets), vf...)
		e.send(e.m.vvfTxPackets, float64(nic.Moved.TxPackets), vf...)
		e.send(e.m.vvfRxBytes, float64(nic.Moved.RxBytes), vf...)
		e.send(e.m.vvfTxBytes, float64(nic.Moved.TxBytes), vf...)
	}
}
