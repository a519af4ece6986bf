package workload

import (
	"math"

	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// Sensor distorts loads as counters do: each sample shows the load of the sample before, because counters show what has passed, with
// normal noise.
type Sensor struct {
	Noise float64 // standard deviation as a share of the rate; the table's is 0.01
	Seed  uint64

	seen map[model.VMID]*sensed
}

type sensed struct {
	n          uint64 // samples so far
	pps, bytes float64
}

// Sense is for World.Sense. A VM's first sample shows the present load.
func (s *Sensor) Sense(vm *sim.VM, pps, bytes float64) (seenPPS, seenBytes float64, known bool) {
	if s.seen == nil {
		s.seen = map[model.VMID]*sensed{}
	}
	m := s.seen[vm.ID]
	if m == nil {
		m = &sensed{pps: pps, bytes: bytes}
		s.seen[vm.ID] = m
	}
	f := max(0, 1+s.Noise*normal(s.Seed^uint64(vm.NICs[0].MAC[4])<<40^uint64(vm.NICs[0].MAC[5])<<48, m.n))
	seenPPS, seenBytes = m.pps*f, m.bytes*f
	m.pps, m.bytes = pps, bytes
	m.n++
	return seenPPS, seenBytes, true
}

// normal returns the n-th draw of a normal distribution (Box-Muller).
func normal(seed, n uint64) float64 {
	return math.Sqrt(-2*math.Log(1-Unit(seed, 2*n))) * math.Cos(2*math.Pi*Unit(seed, 2*n+1))
}
