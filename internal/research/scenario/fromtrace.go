package scenario

import (
	"time"

	"sluice/internal/research/trace"
)

// FromTrace makes a scenario that plays a trace on one network with so many VFs. VMs
// are there from their first row until a row's length after their last; what is missing
// at either end of the trace, but no more than three rows, is taken as being there.
func FromTrace(file string, set *trace.Set, vfs int) *Scenario {
	s := defaults()
	s.file = file
	s.Duration, s.Origin = set.Length, set.Origin
	s.PFs = []PF{{Name: "pf0", VFs: vfs, Network: defaultNetwork, Gbit: 10}}
	for _, x := range set.Series {
		from, until := x.Span()
		g := Group{Name: x.VM, Count: 1, VCPUs: x.Cores, Network: defaultNetwork, NUMA: -1}
		if from > 3*x.Step() {
			g.From = from
		}
		if until < set.Length-3*x.Step() {
			g.Until = until
		}
		g.Load = Load{Shape: "trace", VM: x.VM, Packet: 512, set: &trace.Set{Series: []*trace.Series{x}}}
		s.VMs = append(s.VMs, g)
	}
	s.Sample = sampleFor(set)
	return s
}

// sampleFor looks at a host every second, as the daemon does, or less often where a row
// lasts for minutes: thirty looks a row miss little of it.
func sampleFor(set *trace.Set) time.Duration {
	step := set.Series[0].Step()
	for _, x := range set.Series {
		step = min(step, x.Step())
	}
	return max(time.Second, (step / 30).Truncate(time.Second))
}
