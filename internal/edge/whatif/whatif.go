// Package whatif computes what each policy would have achieved in the last hour. It is pure; the daemon runs it in another
// process, `sluice whatif --compute`.
package whatif

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/api/v1"
	"sluice/internal/control/placement"
	"sluice/internal/edge/answer"
	"sluice/internal/edge/history"
	"sluice/internal/model"
	"sluice/internal/research/scenario"
	"sluice/internal/research/trace"
)

// idle are the policies that are only baselines for comparison.
var idle = []string{"none", "random"}

// Compute replays the past with each policy on a simulated host with the PFs, available VFs, VMs and rules of the last
// Snapshot. Every policy starts with all VMs on virtio. VMs that are gone are assumed to be in the network of the first PF.
// The result is sorted by net share, best first.
func Compute(ctx context.Context, past *history.Past) ([]api.PolicyResult, error) {
	s, err := scenarioOf(past)
	if err != nil {
		return nil, err
	}
	// One simulation at a time: this runs on the host of the daemon and its guests.
	r, err := s.Run(ctx, scenario.RunOptions{Workers: 1, NoOptimum: true})
	if err != nil {
		return nil, err
	}
	var out []api.PolicyResult
	for i := range r.Policies {
		out = append(out, result(&r.Policies[i], r.Charge.Risk))
	}
	slices.SortStableFunc(out, func(a, b api.PolicyResult) int { return cmp.Compare(b.Net, a.Net) })
	return out, nil
}

// result converts packets to shares of all packets.
func result(o *scenario.Outcome, risk float64) api.PolicyResult {
	all := 0.0
	for i := range o.VMs {
		all += o.VMs[i].Packets
	}
	p := api.PolicyResult{Policy: o.Policy, Moves: o.Moves}
	if all > 0 {
		p.Gross, p.Net = o.Benefit/all, (o.Benefit-risk*float64(o.Moves))/all
	}
	return p
}

func scenarioOf(past *history.Past) (*scenario.Scenario, error) {
	rows := &bytes.Buffer{}
	csv(rows, &past.Load)
	set, err := trace.Read("the last hour", rows, trace.Options{})
	if err != nil {
		return nil, err
	}
	s := scenario.FromTrace("the last hour", set, 0)
	s.PFs = s.PFs[:0]
	for i := range past.Snapshot.PFs {
		if pf := &past.Snapshot.PFs[i]; pf.Managed {
			s.PFs = append(s.PFs, scenario.PF{
				Name: pf.Name, VFs: ours(pf), Network: pf.Network, NUMA: pf.NUMANode,
				Gbit: float64(cmp.Or(pf.Shared(), 10e9)) / 1e9,
			})
		}
	}
	s.Worth = scenario.WorthOf(&past.Rules.Worth)
	if len(s.PFs) == 0 {
		return nil, errors.New("no PF is listed in sluice.yaml, so there are no VFs to share out")
	}
	nets := answer.Networks(past.Snapshot)
	for i := range s.VMs {
		s.VMs[i].Network = s.PFs[0].Network
		describe(&s.VMs[i], past, nets)
	}
	if len(s.VMs) > manyVMs {
		s.Sample = coarse
	}
	for _, name := range placement.Names() {
		if slices.Contains(idle, name) {
			continue
		}
		p := scenario.Policy{Name: name, Label: name, Interval: placement.Interval(name)}
		if name == past.Rules.Policy {
			p.Params, p.Interval = past.Rules.Params, cmp.Or(past.Rules.Interval, p.Interval)
		}
		s.Policies = append(s.Policies, p)
	}
	return s, nil
}

// With more than manyVMs VMs, the simulated daemon samples them less often.
const (
	manyVMs = 300
	coarse  = 5 * time.Second
)

// ours counts the VFs that are free or held through Sluice.
func ours(pf *model.PF) (n int) {
	for i := range pf.VFs {
		if o := pf.VFs[i].Owner; o == model.OwnerFree || o == model.OwnerSluice {
			n++
		}
	}
	return n
}

// prefix makes a UUID a valid name: names of VMs need not be unique over an hour, and a UUID is not a valid name.
const prefix = "vm-"

// csv writes the loads as a trace.
func csv(w *bytes.Buffer, h *api.History) {
	w.WriteString("time_s,vm,pps,bytes_s\n")
	for i := range h.VMs {
		v := &h.VMs[i]
		for k := range v.Virtio {
			pps, b := float64(v.Virtio[k]+v.VF[k]), float64(v.Bytes[k])
			if !math.IsNaN(pps) && !math.IsNaN(b) {
				fmt.Fprintf(w, "%d,%s%s,%.0f,%.0f\n", k*int(h.Step), prefix, v.ID, pps, b)
			}
		}
	}
}

// describe gives a VM of the scenario the properties of the real VM, if it still exists. nets are those of the managed PFs.
func describe(g *scenario.Group, past *history.Past, nets map[string]bool) {
	vm := past.Snapshot.FindVM(model.VMID(strings.TrimPrefix(g.Name, prefix)))
	if vm == nil {
		return
	}
	rule := past.Rules.For(vm.ID, vm.Name)
	g.NUMA, g.VCPUs = vm.NUMANode, max(1, vm.VCPUs)
	g.Pin, g.Forbid, g.Weight, g.Priority, g.Class, g.Latency = rule.Pin, rule.Forbid, rule.Weight, rule.Priority, rule.Class, rule.Sensitivity
	nic := answer.Pair(vm, nets)
	if nic == nil {
		g.NoTeaming = true // so that it gets no VF
		return
	}
	g.Network = nic.Network
	g.NoTeaming = nic.Failover == model.FailoverNone || nic.VFOwner == model.OwnerForeign
	g.NoPort = nic.VF == model.NoVF && nic.FreePort == model.No
}
