package scenario

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/internal/config"
	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// Fault is what happens to the uplink of VMs at a time.
type Fault struct {
	At   time.Duration `yaml:"at" need:"yes" doc:"when it happens"`
	Kind string        `yaml:"kind" need:"yes" doc:"what happens; the kinds are listed below"`
	PF   string        `yaml:"pf" doc:"the PF to which, or to whose switch, it happens"`
	VF   int           `yaml:"vf" min:"0" max:"4095" doc:"number of the PF's VF to which it happens"`
	VM   string        `yaml:"vm" doc:"instead of 'pf' and 'vf': those of the VF that this VM has then"`
	For  time.Duration `yaml:"for" doc:"until it is over; unset: it never is"`
	Cut  time.Duration `yaml:"cut" doc:"no VM may be unreachable for longer, if that begins before the next fault; unset: any time"`
}

// faultKind is what tells kinds of Fault apart.
type faultKind struct {
	on  []sim.Uplink // the uplinks that can have it; none: any
	vf  bool         // it happens to one VF
	end bool         // it can be over
	do  func(w *sim.World, p *sim.PF, vf int) (end func())
}

var switchdev = []sim.Uplink{sim.Representors, sim.OVN}

var faultKinds = map[string]faultKind{
	"vfs-vanish": {end: true, do: func(w *sim.World, p *sim.PF, _ int) func() {
		n := p.NumVFs
		w.Vanish(p)
		return func() { p.SetNumVFs(n) }
	}},
	"representor-renamed": {on: switchdev, vf: true, do: func(w *sim.World, p *sim.PF, vf int) func() {
		w.RenamePort(p, vf, p.VFs[vf].Port+"r", false)
		return nil
	}},
	"representor-down": {on: switchdev, vf: true, do: func(_ *sim.World, p *sim.PF, vf int) func() {
		p.VFs[vf].PortDown = true
		return nil
	}},
	"representor-gone": {on: switchdev, vf: true, end: true, do: func(w *sim.World, p *sim.PF, vf int) func() {
		return w.LoseRepresentor(p, vf)
	}},
	"port-deleted": {on: switchdev, vf: true, do: func(w *sim.World, p *sim.PF, vf int) func() {
		w.LosePort(p, vf)
		return nil
	}},
	"switch-remade": {do: func(w *sim.World, p *sim.PF, _ int) func() {
		w.RemakeSwitch(p.Network)
		return nil
	}},
	"switch-stopped": {on: []sim.Uplink{sim.OVN}, end: true, do: func(w *sim.World, p *sim.PF, _ int) func() {
		w.StopSwitch(p.Network, true)
		return func() { w.StopSwitch(p.Network, false) }
	}},
}

func (c *checker) faults() {
	for i := range c.s.Faults {
		f, key := &c.s.Faults[i], keyOf("faults", i)
		kind, known := faultKinds[f.Kind]
		if !known {
			c.at(key+".kind", fmt.Sprintf("unknown kind of fault %q", f.Kind), config.Suggest(f.Kind, slices.Sorted(maps.Keys(faultKinds))))
			continue
		}
		if i > 0 && f.At < c.s.Faults[i-1].At {
			c.at(key+".at", "is before the fault above it", "put faults in order of time")
		}
		if f.At >= c.s.Duration {
			c.at(key+".at", "is after the end of the run", "lower it or raise duration")
		}
		if f.For > 0 && !kind.end {
			c.at(key+".for", f.Kind+" is over at once", "leave it out")
		}
		_, vf := c.s.pos[key+".vf"]
		switch {
		case f.VM != "":
			c.faultOfVM(key, f, kind, vf)
		case f.PF == "":
			c.at(key, "does not say where it happens", "add pf, or vm")
		default:
			c.faultOfPF(key, f, kind, vf)
		}
	}
}

func (c *checker) faultOfVM(key string, f *Fault, kind faultKind, vf bool) {
	if f.PF != "" || vf {
		c.at(key+".vm", "pf or vf is also set", "keep either vm or pf and vf")
	}
	members := c.s.members()
	i := slices.IndexFunc(members, func(m member) bool { return m.name == f.VM })
	if i < 0 {
		c.at(key+".vm", fmt.Sprintf("there is no VM %q", f.VM), "name one of vms; those of a group have numbers")
		return
	}
	if p := slices.IndexFunc(c.s.PFs, func(p PF) bool { return p.Network == members[i].group.Network }); p >= 0 {
		c.faultOn(key, kind, &c.s.PFs[p])
	}
}

func (c *checker) faultOfPF(key string, f *Fault, kind faultKind, vf bool) {
	i := slices.IndexFunc(c.s.PFs, func(p PF) bool { return p.Name == f.PF })
	if i < 0 {
		c.at(key+".pf", fmt.Sprintf("there is no PF %q", f.PF), "name one that pfs lists")
		return
	}
	switch p := &c.s.PFs[i]; {
	case kind.vf && !vf:
		c.at(key, f.Kind+" happens to one VF", "add vf, or name a vm instead of pf")
	case !kind.vf && vf:
		c.at(key+".vf", f.Kind+" happens to all VFs of the PF", "leave it out")
	case f.VF >= p.VFs && kind.vf:
		c.at(key+".vf", fmt.Sprintf("PF %s has no VF %d", p.Name, f.VF), "name one below its vfs")
	default:
		c.faultOn(key, kind, p)
	}
}

// faultOn checks that the PF's uplink can have the fault.
func (c *checker) faultOn(key string, kind faultKind, p *PF) {
	if len(kind.on) > 0 && !slices.Contains(kind.on, sim.Uplink(p.Uplink)) {
		c.at(key+".kind", fmt.Sprintf("PF %s has uplink %s, to which this cannot happen", p.Name, p.Uplink),
			fmt.Sprintf("give it another: %v", kind.on))
	}
}

// scheduleFaults schedules the faults, and watches for how long they cut VMs off.
func (h *host) scheduleFaults() {
	for i := range h.s.Faults {
		h.engine.At(h.s.epoch.Add(h.s.Faults[i].At), func() { h.happen(i) })
	}
	if len(h.s.Faults) > 0 {
		h.reach = sim.NewMeter(h.engine.World)
		h.reach.OnGap = h.cutOff
		h.engine.OnEvent = h.reach.Note
	}
}

// happen causes a fault.
func (h *host) happen(i int) {
	f, w := &h.s.Faults[i], h.engine.World
	at := model.VFID{PF: f.PF, Index: f.VF}
	for j := range h.members {
		if mb := &h.members[j]; mb.name == f.VM && mb.vm != nil {
			at, _ = mb.vm.Holds()
		}
	}
	for _, p := range w.PFs() {
		if kind := faultKinds[f.Kind]; p.Name == at.PF && (!kind.vf || at.Index < p.NumVFs && p.VFs[at.Index].Port != "") {
			if end := kind.do(w, p, at.Index); end != nil && f.For > 0 {
				h.engine.At(w.Now.Add(f.For), end)
			}
			return
		}
	}
	what := "there is no such VF then, or it has no representor"
	if f.VM != "" {
		what = "VM " + f.VM + " has no VF then, or it has no representor"
	}
	h.complain(i, "", what, "name another VF or time")
}

// cutOff holds a time in which a NIC was unreachable against the fault before it.
func (h *host) cutOff(n *sim.NIC, from string, since, until time.Time) {
	for i := len(h.s.Faults) - 1; i >= 0; i-- {
		f := &h.s.Faults[i]
		if since.Sub(h.s.epoch) < f.At {
			continue
		}
		if _, set := h.s.pos[keyOf("faults", i)+".cut"]; set && until.Sub(since) > f.Cut {
			h.complain(i, ".cut", fmt.Sprintf("VM %s is not reached from %s for %s from %s on", n.VM.Name, from, until.Sub(since),
				since.Sub(h.s.epoch)), "this is a defect of Sluice, or raise cut")
		}
		return
	}
}

// complain records what is wrong about a fault, unless something is already.
func (h *host) complain(i int, key, text, remedy string) {
	if h.wrong != nil {
		return
	}
	c := checker{s: h.s}
	c.at(keyOf("faults", i)+key, text, remedy)
	h.wrong = c.errs[0]
}

// faultsOver returns what was wrong about the faults of a run that has ended.
func (h *host) faultsOver() error {
	if h.reach != nil {
		h.reach.Stop(h.engine.World.Now)
	}
	return h.wrong
}
