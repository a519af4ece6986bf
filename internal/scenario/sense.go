package scenario

import (
	"time"

	"sluice/internal/sim"
	"sluice/internal/workload"
)

// sense distorts what is seen of loads.
type sense struct {
	s     *Scenario
	world *sim.World
	start time.Time
	noisy *workload.Sensor
	loads map[*sim.VM]*vmLoad
	group map[*sim.VM]*Group
}

// Sense is for World.Sense.
func (s *sense) Sense(vm *sim.VM, pps, bytes float64) (float64, float64, bool) {
	known := true
	if l := s.loads[vm]; l != nil {
		known = l.known(s.world.Now)
	}
	if s.noisy != nil {
		pps, bytes, _ = s.noisy.Sense(vm, pps, bytes)
	}
	return pps, bytes, known && !s.dark(vm)
}

// dark says whether a blackout hides the VM now.
func (s *sense) dark(vm *sim.VM) bool {
	now := s.world.Now.Sub(s.start)
	for _, b := range s.s.Telemetry.Blackouts {
		if now >= b.At && now < b.At+b.For && matches(b.VMs, s.group[vm], vm.Name) {
			return true
		}
	}
	return false
}

// newSense is nil when everything is seen as it is.
func newSense(s *Scenario, w *sim.World, seed uint64) *sense {
	out := &sense{s: s, world: w, start: w.Now, loads: map[*sim.VM]*vmLoad{}, group: map[*sim.VM]*Group{}}
	if !s.Telemetry.Exact || s.Telemetry.Noise > 0 {
		out.noisy = &workload.Sensor{Noise: s.Telemetry.Noise, Seed: seed}
	}
	return out
}
