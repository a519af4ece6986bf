package workload

import (
	"time"

	"sluice/internal/research/sim"
)

// VM is one machine of a workload.
type VM struct {
	Name   string
	Group  string
	PPS    Shape         // packets/s; nil: none
	Packet float64       // bytes per packet; 0: 512
	CPU    Shape         // host CPUs in use; nil: none
	From   time.Duration // when it arrives
	Until  time.Duration // when it departs; 0: never
}

// Workload is what a policy is judged on.
type Workload struct {
	Name string
	Text string        // what it is like, in one line
	VFs  int           // VFs to share out
	For  time.Duration // how long it is worth running
	VMs  []VM
}

// Load is a VM's load as the simulator takes it.
type Load struct {
	VM    *VM
	Start time.Time // when the workload began
}

// DefaultPacket is the size of packets in bytes where a VM says nothing.
const DefaultPacket = 512

// At implements sim.Load.
func (l *Load) At(t time.Time) (pps, bytesPerSecond, cpus float64) {
	since := t.Sub(l.Start)
	v := l.VM
	if v.PPS != nil {
		pps = v.PPS.Level(since)
	}
	size := v.Packet
	if size == 0 {
		size = DefaultPacket
	}
	if v.CPU != nil {
		cpus = v.CPU.Level(since)
	}
	return pps, pps * size, cpus
}

// Install adds the workload's VMs to the engine's world on a network, numbered from 0
// in their order. Those that arrive later or depart are scheduled.
func (w *Workload) Install(e *sim.Engine, network string) {
	start := e.World.Now
	for i := range w.VMs {
		v := &w.VMs[i]
		arrive := func() {
			vm := e.World.AddVM(i, v.Name, network, &Load{VM: v, Start: start})
			vm.Group = v.Group
			if v.Until > 0 {
				e.At(start.Add(v.Until), func() { e.World.Destroy(vm) })
			}
		}
		if v.From > 0 {
			e.At(start.Add(v.From), arrive)
		} else {
			arrive()
		}
	}
}
