package scenario

import (
	"time"

	"sluice/internal/research/trace"
)

// FromTrace makes a scenario that plays a trace on one network with so many VFs. VMs are there from their first row until one row's length
// after their last. If at most three rows are missing at the start or end of the trace, the VM is taken to be there.
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

// sampleFor returns the interval between samples: a second, as in the daemon, or a thirtieth of a row if rows last for minutes, which loses
// little.
func sampleFor(set *trace.Set) time.Duration {
	step := set.Series[0].Step()
	for _, x := range set.Series {
		step = min(step, x.Step())
	}
	return max(time.Second, (step / 30).Truncate(time.Second))
}
