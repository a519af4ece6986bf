package scenario

import (
	"time"

	"sluice/internal/research/sim"
	"sluice/internal/research/workload"
)

// sense distorts how loads are seen.
type sense struct {
	s     *Scenario
	world *sim.World
	start time.Time
	noisy *workload.Sensor
	last  map[*sim.VM]*[2]float64 // the true load of the sample before, if there is lag and no noise
	// played is set if the scenario has a trace or recording, which may not know every load.
	played bool
	loads  map[*sim.VM]*vmLoad
	group  map[*sim.VM]*Group
}

// Sense is for World.Sense.
func (s *sense) Sense(vm *sim.VM, pps, bytes float64) (float64, float64, bool) {
	known := true
	if s.played {
		if l := s.loads[vm]; l != nil {
			known = l.known(s.world.Now)
		}
	}
	switch {
	case s.noisy != nil:
		pps, bytes, _ = s.noisy.Sense(vm, pps, bytes)
	case s.last != nil:
		was := s.last[vm]
		if was == nil {
			was = &[2]float64{pps, bytes}
			s.last[vm] = was
		}
		was[0], pps = pps, was[0]
		was[1], bytes = bytes, was[1]
	}
	return pps, bytes, known && (len(s.s.Telemetry.Blackouts) == 0 || !s.dark(vm))
}

// dark reports whether a blackout hides the VM now.
func (s *sense) dark(vm *sim.VM) bool {
	now := s.world.Now.Sub(s.start)
	for _, b := range s.s.Telemetry.Blackouts {
		if now >= b.At && now < b.At+b.For && matches(b.VMs, s.group[vm], vm.Name) {
			return true
		}
	}
	return false
}

// newSense makes the sense for a scenario's telemetry.
func newSense(s *Scenario, w *sim.World, seed uint64) *sense {
	out := &sense{s: s, world: w, start: w.Now, loads: map[*sim.VM]*vmLoad{}, group: map[*sim.VM]*Group{}}
	switch t := &s.Telemetry; {
	case t.Noise > 0:
		out.noisy = &workload.Sensor{Noise: t.Noise, Seed: seed}
	case !t.Exact:
		out.last = map[*sim.VM]*[2]float64{}
	}
	for i := range s.VMs {
		out.played = out.played || s.VMs[i].past != nil || s.VMs[i].Load.set != nil
	}
	for i := range s.Timeline {
		out.played = out.played || s.Timeline[i].Load.set != nil
	}
	return out
}
