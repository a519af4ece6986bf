package scenario

import (
	"cmp"
	"slices"
	"time"

	"sluice/internal/research/oracle"
)

// network is a set of VFs and the VMs that compete for them.
type network struct {
	name string
	vfs  int
	vms  []int
}

// networks lists the networks with VFs.
func (s *Scenario) networks() []network {
	var out []network
	for _, p := range s.PFs {
		i := slices.IndexFunc(out, func(n network) bool { return n.name == p.Network })
		if i < 0 {
			out = append(out, network{name: p.Network})
			i = len(out) - 1
		}
		out[i].vfs += p.VFs
	}
	for i, m := range s.members() {
		for k := range out {
			if out[k].name == m.group.Network {
				out[k].vms = append(out[k].vms, i)
			}
		}
	}
	return out
}

// only returns the rates of some VMs.
func (tr *truth) only(vms []int) *oracle.Rates {
	if len(vms) == len(tr.rates.VMs) {
		return tr.rates
	}
	r := &oracle.Rates{Step: tr.rates.Step, PPS: make([][]float64, len(tr.rates.PPS))}
	for _, i := range vms {
		r.VMs = append(r.VMs, tr.rates.VMs[i])
	}
	for t, row := range tr.rates.PPS {
		for _, i := range vms {
			r.PPS[t] = append(r.PPS[t], row[i])
		}
	}
	return r
}

// best is the optimum of several networks together.
type best struct {
	oracle.Best
}

// join adds one network's optimum; index is the VM of each of its columns.
func (b *best) join(x oracle.Best, index []int) {
	b.Value += x.Value
	b.Upper += x.Upper
	b.Moves += x.Moves
	for _, e := range x.Log {
		e.VM = index[e.VM]
		b.Log = append(b.Log, e)
	}
	sortLog(b.Log)
}

func sortLog(log oracle.Log) {
	slices.SortStableFunc(log, func(x, y oracle.Event) int { return cmp.Compare(x.At, y.At) })
}

// delayed makes each plug of an optimum's log count from when it is complete. VFs held from the start need no plug.
func delayed(log oracle.Log, swap time.Duration) oracle.Log {
	out := make(oracle.Log, 0, len(log))
	last := map[int]int{} // index in out of each VM's last plug
	for _, e := range log {
		if e.On && e.At > 0 {
			e.At += swap
			last[e.VM] = len(out)
		} else if i, ok := last[e.VM]; ok && e.At < out[i].At {
			e.At = out[i].At // removed before it was plugged
		}
		out = append(out, e)
	}
	sortLog(out)
	return out
}
