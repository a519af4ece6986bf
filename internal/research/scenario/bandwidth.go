package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"sluice/internal/config"
	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// Bandwidth makes a scenario one of guarantees: VMs share links as their flows do, and allocators are compared.
type Bandwidth struct {
	Allocators []Allocator   `yaml:"allocators" doc:"allocators to compare; with them VMs share links, and policies are not scored: the first of them places VFs"`
	Period     time.Duration `yaml:"period" min:"10ms" max:"10s" doc:"time between two readings of the counters"`
	Delay      time.Duration `yaml:"delay" min:"1us" max:"10s" doc:"until a limit is in force"`
	Noise      float64       `yaml:"noise" min:"0" max:"1" doc:"standard deviation of what is read, as a share"`
	Lost       float64       `yaml:"lost" min:"0" max:"1" doc:"share of the readings that are lost"`
	Tree       bool          `yaml:"tree" doc:"the kernel shares what the taps of a PF may send by itself (one HTB tree)"`
	Packets    config.Rate   `yaml:"packets" doc:"packets/s that the host carries on virtio for all VMs together; unset: any"`
	Capacity   []Capacity    `yaml:"capacity" doc:"what links truly carry, where that is not their speed"`
	Classes    []Class       `yaml:"classes" doc:"classes of VMs"`
}

// Allocator is one to compare.
type Allocator struct {
	Name   string        `yaml:"name" need:"yes" doc:"its name; or 'static', limits set once: best-effort VMs share what is not guaranteed; or 'native', no limits, not even those of VMs"`
	Label  string        `yaml:"label" doc:"what the table calls it"`
	Period time.Duration `yaml:"period" min:"10ms" max:"10s" doc:"its period; unset: that of bandwidth"`
	Limit  config.Rate   `yaml:"limit" doc:"with 'static': that of each best-effort VM; unset: its share of what is not guaranteed"`
}

// Capacity is what a link carries from a time on.
type Capacity struct {
	PF   string        `yaml:"pf" need:"yes" doc:"the PF"`
	At   time.Duration `yaml:"at" doc:"from when on; unset: from the start"`
	Gbit float64       `yaml:"gbit" min:"0.001" max:"1000" need:"yes" doc:"Gbit/s"`
}

// Class is what its VMs get where they say nothing of their own.
type Class struct {
	Name      string      `yaml:"name" need:"yes" doc:"its name"`
	Priority  int         `yaml:"priority" min:"-1000" max:"1000" doc:"where more is guaranteed than there is, VMs of a class with a higher one keep theirs first"`
	Guarantee config.Rate `yaml:"guarantee" doc:"as a VM's"`
	Limit     config.Rate `yaml:"limit" doc:"as a VM's"`
	Minimum   config.Rate `yaml:"minimum" doc:"what dbavm leaves each VM of the class"`
}

// What is compared with allocators: limits that are set once, and no limits, not even those of SLAs.
const (
	static = "static"
	native = "native"
)

// AllocatorNames lists what can be compared.
func AllocatorNames() []string {
	list := append(bandwidth.Names(), static, native)
	slices.Sort(list)
	return list
}

// CheckAllocator complains about an allocator that does not exist.
func CheckAllocator(name string) []config.Error {
	if slices.Contains(AllocatorNames(), name) {
		return nil
	}
	return []config.Error{{Key: "name", Text: fmt.Sprintf("unknown allocator %q", name), Remedy: config.Suggest(name, AllocatorNames())}}
}

// SetAllocators replaces the allocators to compare. Those that the scenario has keep what it says of them.
func (s *Scenario) SetAllocators(names []string) {
	var out []Allocator
	for _, n := range names {
		i := slices.IndexFunc(s.Bandwidth.Allocators, func(a Allocator) bool { return a.Label == n || a.Name == n })
		if i >= 0 {
			out = append(out, s.Bandwidth.Allocators[i])
		} else {
			out = append(out, Allocator{Name: n, Label: n, Period: s.Bandwidth.Period})
		}
	}
	s.Bandwidth.Allocators = out
}

// Shares says whether VMs share links and allocators are compared.
func (s *Scenario) Shares() bool { return len(s.Bandwidth.Allocators) > 0 }

func (b *Bandwidth) fill() {
	b.Period = or(b.Period, 200*time.Millisecond)
	for i := range b.Allocators {
		a := &b.Allocators[i]
		a.Label, a.Period = or(a.Label, a.Name), or(a.Period, b.Period)
	}
}

func (c *checker) bandwidth() {
	b := &c.s.Bandwidth
	for i, a := range b.Allocators {
		key := keyOf("bandwidth.allocators", i)
		for _, e := range CheckAllocator(a.Name) {
			c.at(key+"."+e.Key, e.Text, e.Remedy)
		}
		if slices.ContainsFunc(b.Allocators[:i], func(o Allocator) bool { return o.Label == a.Label }) {
			c.at(key+".name", fmt.Sprintf("two allocators are called %q in the table", a.Label), "give one of them a label")
		}
	}
	for i, x := range b.Capacity {
		if !slices.ContainsFunc(c.s.PFs, func(p PF) bool { return p.Name == x.PF }) {
			c.at(keyOf("bandwidth.capacity", i)+".pf", fmt.Sprintf("there is no PF %q", x.PF), "name one that pfs lists")
		}
	}
	if c.s.Shares() && c.s.Hosts > 1 {
		c.at("hosts", "allocators are compared on one host", "leave it out")
	}
	for i := range c.s.VMs {
		g := &c.s.VMs[i]
		if g.Guarantee.Bits > 0 && g.Limit.Bits > 0 && g.Guarantee.Bits > g.Limit.Bits {
			c.at(keyOf("vms", i)+".guarantee", "is above its limit", "lower it, or raise limit")
		}
	}
}

// slas adds to rules what VMs and classes are promised.
func (s *Scenario) slas(r *model.Rules, a Allocator) {
	for _, c := range s.Bandwidth.Classes {
		if a.Name == native {
			break
		}
		sla := model.SLA{Guarantee: c.Guarantee, Limit: c.Limit, ClassMin: c.Minimum.Bits}
		r.Classes = append(r.Classes, model.Class{Name: c.Name, Priority: c.Priority, SLA: sla})
	}
	share := or(a.Limit.Bits, s.staticShare())
	for i := range s.VMs {
		g := &s.VMs[i]
		sla := g.sla()
		if a.Name == static && g.Guarantee.IsZero() && (sla.Limit.Bits == 0 || sla.Limit.Bits > share) {
			sla.Limit.Bits = share
		}
		if a.Name == native {
			sla = model.SLA{}
		}
		for n := range g.Count {
			rule := model.VMRule{
				Match: g.vmName(n), Pin: g.Pin, Forbid: g.Forbid, Weight: g.Weight, Priority: g.Priority, SLANIC: g.wholeNIC(),
				SLA: sla,
			}
			if rule.SLANIC == "" {
				rule.Class = g.Class // otherwise the SLA's: the VM's own NIC is promised nothing
			}
			r.VMs = append(r.VMs, rule)
		}
	}
}

func (g *Group) sla() model.SLA {
	return model.SLA{Guarantee: g.Guarantee, Limit: g.Limit, Weight: g.Weight, Class: g.Class}
}

// staticShare is what each best-effort VM has of what is not guaranteed, once and for all, bits/s.
func (s *Scenario) staticShare() uint64 {
	link, others := 0.0, 0
	for _, p := range s.PFs {
		link += p.Gbit * 1e9
	}
	for i := range s.VMs {
		if g := &s.VMs[i]; g.Guarantee.IsZero() {
			others += g.Count
		} else {
			link -= float64(g.Guarantee.Bits) * float64(g.Count)
		}
	}
	return uint64(max(1e6, link/float64(max(1, others))))
}

// share lets the host's VMs share its links, with a controller.
func (h *host) share(a Allocator) error {
	b := &h.s.Bandwidth
	name := a.Name
	if name == static || name == native {
		name = "none"
	}
	core, err := bandwidth.NewCore(bandwidth.Options{Mode: model.ModeEnforce, Allocator: name, Period: a.Period, Packets: b.Packets.Packets})
	if err != nil {
		return err
	}
	e := h.engine
	e.Bandwidth = core
	for _, x := range b.Capacity {
		for _, p := range e.World.PFs() {
			if p.Name == x.PF && x.At == 0 {
				p.Carries = x.Gbit * 1e9
			} else if p.Name == x.PF {
				e.At(h.s.epoch.Add(x.At), func() { p.Carries = x.Gbit * 1e9 })
			}
		}
	}
	e.World.StartTraffic(&sim.Traffic{
		Packets: float64(b.Packets.Packets), Noise: b.Noise, Lost: b.Lost, Delay: b.Delay, Tree: b.Tree,
		Rand: rand.New(rand.NewPCG(h.seed, 0x6c696e6b)), //nolint:gosec // noise needs no secrets
	})
	e.StartControl(a.Period)
	return nil
}

// equip gives a VM's NIC what it has for sharing links.
func (h *host) equip(vm *sim.VM, g *Group) {
	n := vm.NICs[0]
	n.Flows, n.Blast = float64(g.Flows), g.Blast
	vm.InGuest, vm.Lies = g.InGuest, g.Lies
	if !g.Pin || !h.s.Shares() {
		return
	}
	for _, p := range h.engine.World.PFs() {
		for i := range p.VFs {
			if p.Network == g.Network && h.engine.World.Give(vm, p.VFs[i].ID) {
				return
			}
		}
	}
}
