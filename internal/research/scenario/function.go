package scenario

import (
	"cmp"
	"fmt"
	"time"

	"sluice/internal/config"
	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// Function is a VF of a VM's virtual PF.
type Function struct {
	Load      Load          `yaml:"load" doc:"what it sends, as a VM's"`
	From      time.Duration `yaml:"from" doc:"when it gets a carrier; unset: at the start"`
	Until     time.Duration `yaml:"until" doc:"when it loses it; unset: never"`
	Guarantee config.Rate   `yaml:"guarantee" doc:"what it is promised to be able to send, of the VM's guarantee"`
	Limit     config.Rate   `yaml:"limit" doc:"what it may send at most"`
	Weight    float64       `yaml:"weight" min:"0.001" max:"1000" doc:"its share of what its siblings leave; unset: 1"`
	Flows     int           `yaml:"flows" min:"1" max:"10000" doc:"flows that share a full link with those of others"`
}

// virtualPF is the name of every virtual PF of a scenario: a VM has at most one.
const virtualPF = "vpf0"

// wholeNIC returns the NIC that the VM's SLA applies to: that of its virtual PF itself, or "" (each NIC) if it has none.
func (g *Group) wholeNIC() string {
	if len(g.Functions) == 0 {
		return ""
	}
	return model.VPFAlias(virtualPF, -1)
}

func (f *Function) inside() model.SLA {
	return model.SLA{Guarantee: f.Guarantee, Limit: f.Limit, Weight: f.Weight}
}

// fillFunctions fills in the defaults.
func (g *Group) fillFunctions() {
	for i := range g.Functions {
		f := &g.Functions[i]
		f.Flows = cmp.Or(f.Flows, 1)
		f.Load.fill()
	}
}

// sendsItself rejects a pattern that matches a VM whose traffic goes through functions.
func (c *checker) sendsItself(key, pattern string) {
	for i := range c.s.VMs {
		for g, n := &c.s.VMs[i], 0; n < g.Count && len(g.Functions) > 0; n++ {
			if matches(pattern, g, g.vmName(n)) {
				c.at(key, fmt.Sprintf("%s sends through functions, whose loads the timeline does not change", g.vmName(n)),
					"use shapes that change over time, or from and until")
				return
			}
		}
	}
}

// functions checks the virtual PFs of a group's VMs.
func (c *checker) functions(key string, g *Group) {
	if len(g.Functions) == 0 {
		return
	}
	if !c.s.Shares() {
		c.at(key+".functions", "functions share links, which VMs only do where allocators are compared", "list bandwidth.allocators")
	}
	if g.Load.PPS > 0 || g.Load.set != nil {
		c.at(key+".load", "a VM with functions sends through them", "give each of the functions a load")
	}
	sum := model.Rate{}
	for i := range g.Functions {
		f := &g.Functions[i]
		at := keyOf(key+".functions", i)
		c.span(at, f.From, f.Until)
		c.promise(at, f.Guarantee, f.Limit)
		sum.Bits, sum.Packets = sum.Bits+f.Guarantee.Bits, sum.Packets+f.Guarantee.Packets
		c.load(at+".load", &f.Load)
	}
	if sum.Bits > g.Guarantee.Bits || sum.Packets > g.Guarantee.Packets {
		c.at(key+".functions", fmt.Sprintf("are guaranteed %s together, which is more than the VM is", sum),
			"raise the VM's guarantee, or lower theirs")
	}
}

// addFunctions gives the n-th VM of a group its virtual PF.
func (h *host) addFunctions(vm *sim.VM, g *Group, n int) {
	if len(g.Functions) == 0 {
		return
	}
	loads := make([]sim.Load, len(g.Functions))
	for i := range loads {
		seed := seedOf(h.seed, fmt.Sprintf("%s/vf%d", vm.Name, i), 0)
		loads[i] = &vmLoad{start: h.s.epoch, parts: []part{g.Functions[i].Load.part(n, h.s.epoch, seed)}}
	}
	for i, nic := range h.engine.World.AddVirtualPF(vm, virtualPF, g.Network, loads...) {
		f := &g.Functions[i]
		nic.Flows, nic.Blast = float64(f.Flows), g.Blast
		if !h.native {
			nic.Function.Inside = f.inside()
		}
		nic.Function.NoCarrier = f.From > 0
		if f.From > 0 {
			h.engine.At(h.s.epoch.Add(f.From), func() { nic.Function.NoCarrier = false })
		}
		if f.Until > 0 {
			h.engine.At(h.s.epoch.Add(f.Until), func() { nic.Function.NoCarrier = true })
		}
	}
}
