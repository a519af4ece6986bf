package scenario

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"sluice/internal/config"
	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// Bandwidth makes a scenario compare allocators: VMs share links in proportion to their flows, and guarantees are scored.
type Bandwidth struct {
	Allocators []Allocator   `yaml:"allocators" doc:"allocators to compare; VMs then share links, and the first policy places VFs, unscored"`
	Period     time.Duration `yaml:"period" min:"10ms" max:"10s" doc:"time between two readings of the counters"`
	Delay      time.Duration `yaml:"delay" min:"1us" max:"10s" doc:"time until a limit is in force"`
	Noise      float64       `yaml:"noise" min:"0" max:"1" doc:"standard deviation of readings, as a share"`
	Lost       float64       `yaml:"lost" min:"0" max:"1" doc:"share of the readings that are lost"`
	Tree       string        `yaml:"tree" enum:"auto|off" doc:"auto: under waterfill a PF's taps share one HTB tree; unset: off"`
	Packets    config.Rate   `yaml:"packets" doc:"packets/s that the host carries on virtio for all VMs together; unset: any"`
	Capacity   []Capacity    `yaml:"capacity" doc:"what links really carry, where that differs from their speed"`
	Classes    []Class       `yaml:"classes" doc:"classes of VMs"`
}

// Allocator is an allocator to compare.
type Allocator struct {
	Name   string        `yaml:"name" need:"yes" doc:"its name; or 'static': fixed limits for best-effort VMs; or 'native': no limits at all"`
	Label  string        `yaml:"label" doc:"what the table calls it"`
	Period time.Duration `yaml:"period" min:"10ms" max:"10s" doc:"its period; unset: that of bandwidth"`
	Limit  config.Rate   `yaml:"limit" doc:"'static': that of each best-effort VM; unset: a share of what is not guaranteed"`
}

// Capacity is what a link carries from some time on.
type Capacity struct {
	PF   string        `yaml:"pf" need:"yes" doc:"the PF"`
	At   time.Duration `yaml:"at" doc:"from when; unset: from the start"`
	Gbit float64       `yaml:"gbit" min:"0.001" max:"1000" need:"yes" doc:"Gbit/s"`
}

// Class is what its VMs get unless they have values of their own.
type Class struct {
	Name      string      `yaml:"name" need:"yes" doc:"its name"`
	Priority  int         `yaml:"priority" min:"-1000" max:"1000" doc:"if guarantees exceed capacity, higher classes keep theirs first"`
	Guarantee config.Rate `yaml:"guarantee" doc:"as a VM's"`
	Limit     config.Rate `yaml:"limit" doc:"as a VM's"`
	Minimum   config.Rate `yaml:"minimum" doc:"what dbavm leaves each VM of the class"`
}

// What allocators are compared with: limits set once, and no limits, not even those of SLAs.
const (
	static = "static"
	native = "native"
)

// AllocatorNames lists all that can be compared.
func AllocatorNames() []string {
	return slices.Sorted(slices.Values(append(bandwidth.Names(), static, native)))
}

// CheckAllocator returns an error for an allocator that does not exist.
func CheckAllocator(name string) []config.Error {
	if slices.Contains(AllocatorNames(), name) {
		return nil
	}
	return []config.Error{{Key: "name", Text: fmt.Sprintf("unknown allocator %q", name), Remedy: config.Suggest(name, AllocatorNames())}}
}

// SetAllocators replaces the allocators to compare. Those in the scenario keep its settings.
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

// Shares reports whether VMs share links and allocators are compared.
func (s *Scenario) Shares() bool { return len(s.Bandwidth.Allocators) > 0 }

func (b *Bandwidth) fill() {
	b.Period = cmp.Or(b.Period, 200*time.Millisecond)
	for i := range b.Allocators {
		a := &b.Allocators[i]
		a.Label, a.Period = cmp.Or(a.Label, a.Name), cmp.Or(a.Period, b.Period)
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
		c.promise(keyOf("vms", i), c.s.VMs[i].Guarantee, c.s.VMs[i].Limit)
	}
}

// promise checks a guarantee against the limit beside it.
func (c *checker) promise(key string, guarantee, limit model.Rate) {
	if limit.Bits > 0 && guarantee.Bits > limit.Bits {
		c.at(key+".guarantee", "is above its limit", "lower it, or raise limit")
	}
}

// slas adds the SLAs of VMs and classes to rules.
func (s *Scenario) slas(r *model.Rules, a Allocator) {
	for _, c := range s.Bandwidth.Classes {
		if a.Name == native {
			break
		}
		sla := model.SLA{Guarantee: c.Guarantee, Limit: c.Limit, ClassMin: c.Minimum.Bits}
		r.Classes = append(r.Classes, model.Class{Name: c.Name, Priority: c.Priority, SLA: sla})
	}
	share := cmp.Or(a.Limit.Bits, s.staticShare())
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
				rule.Class = g.Class // otherwise the SLA has it, and the VM's own NIC is promised nothing
			}
			r.VMs = append(r.VMs, rule)
		}
	}
}

func (g *Group) sla() model.SLA {
	return model.SLA{Guarantee: g.Guarantee, Limit: g.Limit, Weight: g.Weight, Class: g.Class}
}

// staticShare returns each best-effort VM's fixed share of what is not guaranteed, in bits/s.
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

// share makes the host's VMs share its links, under a bandwidth controller.
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
		Packets: float64(b.Packets.Packets), Noise: b.Noise, Lost: b.Lost, Delay: b.Delay, Tree: b.Tree == "auto",
		Rand: rand.New(rand.NewPCG(h.seed, 0x6c696e6b)), //nolint:gosec // noise needs no secrets
	})
	e.StartControl(a.Period)
	return nil
}

// equip sets what matters for sharing links, and gives pinned VMs their VF.
func (h *host) equip(vm *sim.VM, g *Group) {
	n := vm.NICs[0]
	n.Flows, n.Blast, n.LimitShare = float64(g.Flows), g.Blast, g.LimitShare
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
