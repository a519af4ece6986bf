package scenario

import (
	"slices"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// epoch is when simulated time begins, unless a recording states it. Its value does not matter.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// member is one VM of a host.
type member struct {
	name  string
	group *Group
	n     int // its number in the group
	vm    *sim.VM
}

// host is a scenario's world with a daemon on it.
type host struct {
	s        *Scenario
	engine   *sim.Engine
	members  []member
	sense    *sense
	failures *failures
	carrier  *carrier
	rerun    *rerun // of a recording; nil otherwise
	reach    *sim.Meter
	wrong    error // about the scenario's faults
	seed     uint64
	native   bool // nothing is limited, not even inside virtual PFs
}

// members lists a scenario's VMs. Indices of VMs everywhere follow this order.
func (s *Scenario) members() []member {
	var out []member
	for i := range s.VMs {
		for n := range s.VMs[i].Count {
			out = append(out, member{name: s.VMs[i].vmName(n), group: &s.VMs[i], n: n})
		}
	}
	return out
}

// options returns the loop's options: the daemon's defaults, or those of the recording.
func (s *Scenario) options() loop.Options {
	o := loop.DefaultOptions
	o.Parallel = s.Parallel
	if s.replay != nil && s.replay.memory != nil {
		o = s.replay.memory.Options
	}
	o.Mode = model.ModeEnforce
	return o
}

// rules returns the placement rules of a policy and the groups.
func (s *Scenario) rules(p Policy) model.Rules {
	r := model.Rules{Policy: p.Name, Interval: p.Interval, Params: p.Params, Worth: s.Worth.rules()}
	if s.replay != nil {
		return s.replay.rulesAt(0, r)
	}
	for i := range s.VMs {
		g := &s.VMs[i]
		if !g.Pin && !g.Forbid && g.Weight == 0 && g.Priority == 0 && g.Class == "" && g.Latency == "" {
			continue
		}
		for n := range g.Count {
			r.VMs = append(r.VMs, model.VMRule{
				Match: g.vmName(n), Pin: g.Pin, Forbid: g.Forbid, Weight: g.Weight, Priority: g.Priority, Class: g.Class, Sensitivity: g.Latency,
			})
		}
	}
	return r
}

// newHost builds the world and starts a daemon with the policy and its rules.
func newHost(s *Scenario, p Policy, seed uint64) (*host, error) {
	return newHostWith(s, p, s.rules(p), seed, false)
}

func newHostWith(s *Scenario, p Policy, rules model.Rules, seed uint64, native bool) (*host, error) {
	m := newFailures(s, seed)
	w := &sim.World{Now: s.epoch, Timing: m.base}
	if s.Failures != (Failures{}) || s.plugFails() {
		w.Fail = m.fail
	}
	h := &host{
		s: s, members: s.members(), failures: m, seed: seed, native: native, sense: newSense(s, w, seed),
		engine: &sim.Engine{World: w, Sample: s.Sample},
	}
	h.engine.OnStep = m.step
	if s.replay != nil {
		h.rerun = newRerun(s.replay, h, p)
		h.engine.OnStep = func(st model.Step) sim.Verdict { return h.rerun.step(st, m.base) }
	}
	w.Sense = h.sense.Sense
	if s.Path.on() || s.copies() {
		h.carrier = &carrier{path: s.Path}
	}
	for _, p := range s.PFs {
		pf := w.AddPF(p.Name, p.Network, p.VFs, p.NUMA)
		pf.Speed = uint64(p.Gbit * 1e9)
		w.Connect(pf, sim.Uplink(p.Uplink))
	}
	core, err := loop.NewCore(rules, s.options(), &sim.Journal{}, nil)
	if err != nil {
		return nil, err
	}
	h.engine.Core = core
	if h.rerun != nil {
		if err := h.rerun.recall(core); err != nil {
			return nil, err
		}
	}
	h.schedule()
	return h, nil
}

func (s *Scenario) plugFails() bool {
	return slices.ContainsFunc(s.VMs, func(g Group) bool { return g.PlugFails > 0 })
}

// schedule schedules arrivals and departures of VMs, times without link, faults, and the first tick.
func (h *host) schedule() {
	for i := range h.members {
		mb := &h.members[i]
		if from := mb.group.From; from > 0 {
			h.engine.At(h.s.epoch.Add(from), func() { h.arrive(i) })
		} else {
			h.arrive(i)
		}
		if until := mb.group.Until; until > 0 {
			h.engine.At(h.s.epoch.Add(until), func() { h.depart(mb) })
		}
	}
	for _, l := range h.s.Links {
		for _, pf := range h.engine.World.PFs() {
			if pf.Name == l.PF {
				h.engine.At(h.s.epoch.Add(l.At), func() { pf.LinkUp = false })
				h.engine.At(h.s.epoch.Add(l.At+l.For), func() { pf.LinkUp = true })
			}
		}
	}
	h.scheduleFaults()
	h.engine.Start()
}

func (h *host) arrive(i int) {
	mb := &h.members[i]
	g := mb.group
	load := h.s.newLoad(g, mb.n, h.s.epoch, h.seed)
	id := sim.NumberedVM(i)
	if g.past != nil {
		id = g.past.id
	}
	vm := h.engine.World.AddVMAs(id, i, mb.name, g.Network, load)
	vm.Group, vm.NUMA, vm.VCPUs = g.Name, g.NUMA, g.VCPUs
	vm.NoDriver, vm.IgnoreUnplug, vm.NoPort, vm.NoTeaming, vm.Blind = g.NoDriver, g.IgnoreUnplug, g.NoPort, g.NoTeaming, g.Blind
	mb.vm = vm
	if h.rerun != nil {
		h.rerun.arrive(mb)
	}
	h.equip(vm, g)
	h.addFunctions(vm, g, mb.n)
	h.sense.loads[vm], h.sense.group[vm] = load, g
	h.failures.groups[vm.ID] = g
	if h.carrier != nil {
		c := &carried{by: h.carrier, vm: vm, want: load}
		vm.Load = c
		h.carrier.vms, h.carrier.valid = append(h.carrier.vms, c), false
	}
}

func (h *host) depart(mb *member) {
	h.engine.World.Destroy(mb.vm)
	delete(h.sense.loads, mb.vm)
	delete(h.sense.group, mb.vm)
	delete(h.sense.last, mb.vm)
	if h.carrier != nil {
		h.carrier.vms = slices.DeleteFunc(h.carrier.vms, func(c *carried) bool { return c.vm == mb.vm })
		h.carrier.valid = false
	}
	mb.vm = nil
}
