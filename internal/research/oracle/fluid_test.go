package oracle

import (
	"fmt"
	"time"

	"sluice/internal/control/placement"
	"sluice/internal/model"
	"sluice/internal/research/sim"
	"sluice/internal/research/workload"
)

// Fluid plays Rates through a policy alone: no loop, no plan, and every swap takes effect at once and costs Charge.Swap. It is a hundred
// times as fast as Run and meant for tuning; published figures come from Run. The first holders pay nothing.
func Fluid(r *Rates, rules model.Rules, vfs int, c Charge, sensor *workload.Sensor) (Figures, error) {
	policy, err := placement.NewPolicy(rules)
	if err != nil {
		return Figures{}, err
	}
	vms := make([]sim.VM, len(r.VMs))
	cands := make([]placement.Candidate, len(vms))
	for i := range cands {
		vms[i].ID = model.VMID(fmt.Sprintf("%06d", i))
		vms[i].NICs = []*sim.NIC{{MAC: model.MAC{4: byte(i >> 8), 5: byte(i)}}}
		cands[i] = placement.Candidate{
			VM: vms[i].ID, Name: r.VMs[i], Weight: 1, Known: true,
			Cost: placement.Cost{Plug: 640 * time.Millisecond, Unplug: 56 * time.Millisecond},
		}
	}
	f := Figures{PerVM: make([]VMFigures, len(vms))}
	out := make([]model.Reason, len(vms))
	fills := 0
	for t, pps := range r.PPS {
		for i := range cands {
			cands[i].PPS, cands[i].Bytes, cands[i].Known = sensor.Sense(&vms[i], pps[i], pps[i]*workload.DefaultPacket)
		}
		policy.Select(epoch.Add(time.Duration(t)*r.Step), cands, vfs, out)
		for i := range cands {
			if out[i].Hold && !cands[i].Holds {
				f.PerVM[i].Plugs++
				f.Plugs++
				if fills < vfs {
					fills++
				} else {
					f.Moves++
					f.Benefit -= c.Swap * pps[i]
				}
			}
			if cands[i].Holds = out[i].Hold; out[i].Hold {
				f.PerVM[i].OnVF += r.Step
				f.Benefit += pps[i] * r.Step.Seconds()
			}
		}
	}
	f.Net = f.Benefit - c.Risk*float64(f.Moves)
	return f, nil
}
