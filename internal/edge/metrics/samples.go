package metrics

import (
	"cmp"
	"strconv"
	"time"

	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

func (e emitter) daemon(x *answer.Index, version string, problems int) {
	e.send(buildInfo, 1, version)
	for _, mode := range []model.Mode{model.ModeObserve, model.ModeEnforce} {
		e.bool(currentMode, x.Mode == mode, string(mode))
	}
	e.send(policyInfo, 1, x.Rules.Policy)
	e.bool(draining, x.Rules.Drain)
	e.bool(degraded, len(x.Errors) > 0)
	e.moment(startTime, x.Started)
	e.moment(snapshotTime, x.Snapshot.Time)
	e.send(decideTook, x.Tick.Seconds())
	e.send(problemCount, float64(problems))
}

// moment omits a zero time.
func (e emitter) moment(m *metric, t time.Time, labels ...string) {
	if !t.IsZero() {
		e.send(m, float64(t.UnixMilli())/1e3, labels...)
	}
}

func (e emitter) moves(x *answer.Index) {
	t := &x.Totals
	e.send(ticks, float64(t.Ticks))
	e.send(lateSamples, float64(t.LateSamples))
	e.sum(plugTook, t.Plugs, t.PlugTime)
	e.sum(unplugTook, t.Unplugs, t.UnplugTime)
	e.send(movesFailed, float64(t.Failed))
	e.send(stepRetries, float64(t.Retries))
	e.send(repairs, float64(t.Repairs))
	active, pending := map[model.MoveKind]int{}, map[model.MoveKind]int{}
	for i := range x.Active {
		active[x.Active[i].Move.Kind]++
	}
	for i := range x.Pending {
		pending[x.Pending[i].Kind]++
	}
	for _, kind := range []model.MoveKind{model.MovePlug, model.MoveUnplug, model.MoveRepair} {
		e.send(movesActive, float64(active[kind]), string(kind))
		e.send(movesPending, float64(pending[kind]), string(kind))
	}
	for i := range x.Active {
		m := &x.Active[i]
		vf := ""
		if m.Move.VF.PF != "" { // otherwise the move has no VF
			vf = strconv.Itoa(m.Move.VF.Index)
		}
		e.moment(moveStart, m.Started, string(m.Move.Kind), m.Move.VF.PF, vf, m.Move.VMName, string(m.Move.VM))
	}
	e.findings(x)
}

func (e emitter) findings(x *answer.Index) {
	byCode := map[string]int{}
	for i := range x.Findings {
		byCode[x.Findings[i].Code]++
		e.send(findingInfo, 1, x.Findings[i].Code, x.Findings[i].Subject)
	}
	for code, n := range byCode {
		e.send(findingsCount, float64(n), code)
	}
}

func (e emitter) pf(pf *model.PF) {
	e.send(pfInfo, 1, pf.Name, string(pf.Address), pf.Driver, pf.Network, node(pf.NUMANode))
	e.bool(pfUp, pf.LinkUp, pf.Name)
	n := answer.PFStatus(pf).VFs
	e.send(pfVFs, float64(n.Free-n.Unusable), pf.Name, string(model.OwnerFree))
	e.send(pfVFs, float64(n.Unusable), pf.Name, "unusable")
	e.send(pfVFs, float64(n.Held), pf.Name, string(model.OwnerSluice))
	e.send(pfVFs, float64(n.Foreign), pf.Name, string(model.OwnerForeign))
	for i := range pf.VFs {
		vf := &pf.VFs[i]
		e.send(vfInfo, 1, vf.ID.PF, strconv.Itoa(vf.ID.Index), string(vf.Address), vf.Driver, string(vf.Owner))
	}
}

// node formats a NUMA node as the SR-IOV exporter does: empty when unknown.
func node(n int) string {
	if n < 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// holders emits the VM behind every VF in use, including VFs that Sluice did not attach.
func (e emitter) holders(x *answer.Index) {
	for i := range x.Snapshot.VMs {
		vm := &x.Snapshot.VMs[i]
		for j := range vm.NICs {
			nic := &vm.NICs[j]
			vf := x.Snapshot.FindVF(nic.VF)
			if vf == nil {
				continue
			}
			e.send(vfHolder, 1, nic.VF.PF, strconv.Itoa(nic.VF.Index), string(vf.Address), vm.Name, string(vm.ID), device(nic))
			e.tri(vfInGuest, vf.InGuest, nic.VF.PF, strconv.Itoa(nic.VF.Index), vm.Name, string(vm.ID))
		}
	}
}

func (e emitter) vm(x *answer.Index, vm *model.VM) {
	name, id := vm.Name, string(vm.ID)
	row := x.VM(vm)
	e.send(vmInfo, 1, name, id, row.Class, string(vm.State))
	e.bool(vmHolds, vm.Held() != nil, name, id)
	e.bool(vmKnown, row.Known, name, id)
	if row.Code != "" {
		e.bool(vmShould, row.Hold, name, id)
		e.send(vmReason, 1, name, id, row.Code)
	}
	if x.Reason(vm.ID).Policy != "" { // otherwise no policy scored it
		e.send(vmScore, row.Score, name, id)
	}
	if vm.CPUKnown && vm.VCPUs > 0 {
		e.send(vmCPU, vm.CPU/float64(vm.VCPUs), name, id)
	}
	for i := range vm.NICs {
		nic := &vm.NICs[i]
		dev := device(nic)
		e.traffic(&nic.Virtio, name, id, dev, "virtio")
		e.traffic(&nic.VFPath, name, id, dev, "vf")
		if nic.VirtualPF == "" && vm.State == model.VMRunning {
			e.tri(nicVirtioUp, nic.LinkUp, name, id, dev)
		}
		if nic.VFPath.Known && nic.VFPath.Source == model.SourceAgent {
			e.send(nicDenied, nic.VFPath.Denied, name, id, dev)
		}
	}
}

// device returns the tap, or the NIC's alias if it has none.
func device(nic *model.NIC) string { return cmp.Or(nic.Tap, nic.Alias) }

// traffic omits the rates of a path that are unknown, and the sums of a path that was never known.
func (e emitter) traffic(t *model.Traffic, name, id, dev, path string) {
	if c := t.Carried; t.Known || c != (model.Carried{}) {
		e.send(nicRxPacketsTotal, c.RxPackets, name, id, dev, path)
		e.send(nicTxPacketsTotal, c.TxPackets, name, id, dev, path)
		e.send(nicRxBytesTotal, c.RxBytes, name, id, dev, path)
		e.send(nicTxBytesTotal, c.TxBytes, name, id, dev, path)
	}
	if !t.Known {
		return
	}
	for _, one := range []struct {
		m *metric
		v float64
	}{{nicRxPackets, t.RxPPS}, {nicTxPackets, t.TxPPS}, {nicRxBytes, t.RxBytes}, {nicTxBytes, t.TxBytes}} {
		e.send(one.m, one.v, name, id, dev, path, string(t.Source), string(t.Proof))
	}
}
