package metrics

import (
	"context"
	"strconv"
	"time"

	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// listWithin is the timeout for querying the controller of virtual PFs, which answers from memory.
const listWithin = time.Second

// virtualPFs emits the state of the controller of virtual PFs, if there is one.
func (e emitter) virtualPFs(x *answer.Index, of VirtualPFs) {
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

func (e emitter) virtualPF(x *answer.Index, p *model.VirtualPFStatus) {
	pf := []string{p.VMName, string(p.VM), p.Name}
	e.send(vpfInfo, 1, p.VMName, string(p.VM), p.Name, string(p.Model), string(p.Backend), p.Network)
	e.bool(vpfRunning, p.Running, pf...)
	b := answer.BandwidthOf(x.View)
	for i := range b.VirtualPFs {
		if n := &b.VirtualPFs[i]; n.VM == p.VM && n.VirtualPF == p.Name {
			e.share(n, shareMetrics{vpfGuarantee, vpfLimit, vpfAllowed, vpfSent, vpfShort, vpfTakes}, pf...)
		}
	}
	for i := range p.Functions {
		e.function(x, p, &p.Functions[i])
	}
}

// function emits the metrics of a function, omitting those that are unknown while its VM is not running.
func (e emitter) function(x *answer.Index, p *model.VirtualPFStatus, f *model.FunctionStatus) {
	name := "pf"
	if f.VF >= 0 {
		name = strconv.Itoa(f.VF)
	}
	vf := []string{p.VMName, string(p.VM), p.Name, name}
	e.send(vvfInfo, 1, p.VMName, string(p.VM), p.Name, name, f.Tap, f.MAC.String())
	e.bool(vvfGranted, f.Owner != "", vf...)
	if f.Carrier == model.Unknown {
		return
	}
	e.bool(vvfUp, f.Carrier == model.Yes, vf...)
	e.bool(vvfInForce, f.InForce, vf...)
	for reason, n := range map[string]uint64{"spoof": f.Drops.Spoof, "vlan": f.Drops.VLAN, "rate": f.Drops.Rate} {
		e.send(vvfDropped, float64(n), p.VMName, string(p.VM), p.Name, name, reason)
	}
	vm := x.Snapshot.FindVM(p.VM)
	if vm == nil {
		return
	}
	if nic := vm.FindNIC(f.Alias); nic != nil && nic.Moved != nil {
		e.send(vvfRxPackets, float64(nic.Moved.RxPackets), vf...)
		e.send(vvfTxPackets, float64(nic.Moved.TxPackets), vf...)
		e.send(vvfRxBytes, float64(nic.Moved.RxBytes), vf...)
		e.send(vvfTxBytes, float64(nic.Moved.TxBytes), vf...)
	}
}
