package virtualpf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/control/vpf"
	"sluice/internal/control/vpf/vpftest"
	"sluice/internal/model"
)

// machine is a Core, the State that it reads, and a host on which anything may happen in between.
type machine struct {
	host  *fakeHost
	core  *vpf.Core
	state *vpf.State
	past  map[model.VMID][]*vpf.State // states of a VM's definitions since it was started
	spoil map[string]bool             // taps that others changed and Core has not seen yet
	now   time.Time
	todo  []vpf.Action
}

func newMachine() *machine {
	m := &machine{
		host: newFakeHost(), core: vpf.NewCore(), state: (&vpf.State{}).Clone(), past: map[model.VMID][]*vpf.State{},
		spoil: map[string]bool{}, now: time.Unix(1e9, 0),
	}
	m.host.sane = m.sane
	return m
}

// sane describes a violation: a link is up while its tap does not have the policy that was wanted now or at any time since the VM was
// started.
func (m *machine) sane(h *fakeHost) string {
	for _, vm := range h.vms {
		for i := range vm.NICs {
			n := &vm.NICs[i]
			if n.VirtualPF == "" || n.Carrier != model.Yes || m.spoil[n.Tap] {
				continue
			}
			have := h.ports[n.Tap]
			if have == nil || have.Index != n.TapIndex || have.Detached != model.No {
				return fmt.Sprintf("%s of %s has a carrier and no policy", n.Alias, vm.ID)
			}
			if !slices.ContainsFunc(m.past[vm.ID], func(s *vpf.State) bool { return m.asked(s, vm, n, have) }) {
				return fmt.Sprintf("%s of %s has a carrier and a policy that nobody asked for: %+v", n.Alias, vm.ID, have)
			}
		}
	}
	return ""
}

// asked reports whether a State wanted a function to be up with the existing port.
func (m *machine) asked(s *vpf.State, vm *vpf.VM, n *model.NIC, have *model.SwitchPortState) bool {
	p := s.Find(vm.ID, n.VirtualPF)
	if p == nil {
		return false
	}
	up, _ := vpf.WantsLink(p, n.Function-1)
	want := vpf.Wanted(p, n.Function-1, n.Tap)
	return up && vpf.Holds(&want, have)
}

// update changes the Store as Manager and Runner do.
func (m *machine) update(edit func(*vpf.State)) {
	next := m.state.Clone()
	edit(next)
	if next.Check() != nil {
		return // rejected
	}
	m.state = next
	for vm := range m.past {
		if m.host.vms[vm] != nil {
			m.past[vm] = append(m.past[vm], next)
		}
	}
}

// tick asks Core what to do.
func (m *machine) tick() {
	if len(m.todo) > 0 {
		return // a Runner observes the host again when these have ended
	}
	w, _ := m.host.look(context.Background())
	m.todo = m.core.Tick(m.now, m.state, &w).Actions
}

// act carries out the next action.
func (m *machine) act() {
	if len(m.todo) == 0 {
		return
	}
	a := m.todo[0]
	m.todo = m.todo[1:]
	var err error
	ctx := context.Background()
	switch a.Kind {
	case vpf.Forget:
		m.update(func(s *vpf.State) { s.Forget(a.VM) })
	case vpf.LinkDown:
		err = m.host.SetLink(ctx, a.VM, a.Alias, false)
		if err == nil {
			m.clean(a)
		}
	case vpf.SetPort:
		_, err = m.host.SetSwitchPort(ctx, a.Port)
	case vpf.LinkUp:
		w, _ := m.host.look(ctx)
		if err = a.Allows(&w); err == nil {
			err = m.host.SetLink(ctx, a.VM, a.Alias, true)
		}
	case vpf.DropPort:
		if w, _ := m.host.look(ctx); !a.Useless(&w) {
			err = m.host.RemoveSwitchPort(ctx, a.Tap)
		}
	}
	m.core.Finish(m.now, a, err)
}

func (m *machine) tap(a vpf.Action) string {
	if vm := m.host.vms[a.VM]; vm != nil {
		if n := vm.FindNIC(a.Alias); n != nil {
			return n.Tap
		}
	}
	return ""
}

// clean ends the period in which a tap that others changed is exempt from checks.
func (m *machine) clean(a vpf.Action) { delete(m.spoil, m.tap(a)) }

// crash kills the program; its pending actions are lost.
func (m *machine) crash() { m.core, m.todo = vpf.NewCore(), nil }

// settle lets Core finish its work, and describes what it left undone.
func (m *machine) settle() string {
	m.host.fail = func(string) error { return nil }
	var w vpf.World
	for range 200 {
		m.now = m.now.Add(time.Minute)
		for len(m.todo) > 0 {
			m.act()
		}
		w, _ = m.host.look(context.Background())
		out := m.core.Tick(m.now, m.state, &w)
		if m.todo = out.Actions; len(m.todo) == 0 {
			return m.left(&w, &out)
		}
	}
	return fmt.Sprintf("it never ends: %v", m.todo)
}

// left describes what should no longer exist when nothing is left to do.
func (m *machine) left(w *vpf.World, out *vpf.Result) string {
	owned := map[string]bool{}
	for i := range w.VMs {
		vm := &w.VMs[i]
		for _, n := range vm.NICs {
			owned[n.Tap] = true
			p, up := m.state.Find(vm.ID, n.VirtualPF), false
			if p != nil {
				up, _ = vpf.WantsLink(p, n.Function-1)
			}
			if (n.Carrier == model.Yes) != up {
				return fmt.Sprintf("%s of %s has carrier %s, and wants %v", n.Alias, vm.ID, n.Carrier, up)
			}
			have, inForce := m.host.ports[n.Tap], false
			if p != nil {
				want := vpf.Wanted(p, n.Function-1, n.Tap)
				inForce = vpf.Holds(&want, have) && have.Index == n.TapIndex
			}
			if p != nil && !inForce {
				return fmt.Sprintf("%s of %s is not in force: %+v", n.Alias, vm.ID, have)
			}
		}
	}
	for _, p := range w.Ports {
		if !owned[p.Tap] {
			return fmt.Sprintf("port %s is left", p.Tap)
		}
	}
	for k := range m.state.Virtual {
		p := &m.state.Virtual[k]
		vm := w.FindVM(p.VM)
		if m.state.Grants(p.VM) > 0 && (vm == nil || vm.Run != m.state.Guests[p.VM].Run) {
			return fmt.Sprintf("grants of %s are left", p.VM)
		}
	}
	for i := range out.Virtual {
		if s := &out.Virtual[i]; s.Running && slices.Contains(s.Settled, false) {
			return fmt.Sprintf("%s of %s is not settled: %+v", s.Name, s.VM, s.Functions)
		}
	}
	return ""
}

var (
	testVMs   = []model.VMID{"a", "b"}
	testNames = []string{"vpf0", "vpf1"}
)

func (m *machine) step(t *rapid.T) {
	vm, name := rapid.SampledFrom(testVMs).Draw(t, "vm"), rapid.SampledFrom(testNames).Draw(t, "name")
	vf := rapid.IntRange(0, 2).Draw(t, "vf")
	runs := m.host.vms[vm] != nil
	switch rapid.SampledFrom([]string{
		"tick", "tick", "tick", "act", "act", "act", "act", "crash", "define", "undefine", "start", "stop",
		"attach", "attach", "detach", "set", "tamper", "fail", "later",
	}).Draw(t, "do") {
	case "tick":
		m.tick()
	case "act":
		m.act()
	case "crash":
		m.crash()
	case "define":
		p := vpftest.PF(vm, name, rapid.IntRange(1, 3).Draw(t, "vfs"))
		p.Channel = rapid.Bool().Draw(t, "channel")
		if rapid.IntRange(0, 3).Draw(t, "model") == 0 {
			p.Model = model.VPFIGB
		}
		if !runs && m.state.Find(vm, name) == nil {
			m.update(func(s *vpf.State) { s.Put(p) })
		}
	case "undefine":
		if !runs || rapid.IntRange(0, 5).Draw(t, "lost") == 0 { // or the file was moved away
			m.update(func(s *vpf.State) { s.Drop(vm, name) })
			m.todo = nil
			m.core = vpf.NewCore()
			m.spoilAll(vm)
		}
	case "start":
		if !runs {
			m.past[vm] = nil
			m.host.start(vm, m.state.Of(vm))
			fresh := m.state.Clone()
			fresh.Forget(vm)
			m.past[vm] = []*vpf.State{fresh}
			for _, n := range m.host.vms[vm].NICs {
				delete(m.spoil, n.Tap)
			}
		}
	case "stop":
		m.host.stop(vm)
	case "attach", "detach", "set":
		m.change(t, vm, name, vf)
	case "tamper":
		m.tamper(t, vm)
	case "fail":
		n := rapid.IntRange(0, 3).Draw(t, "of")
		m.host.fail = func(string) error {
			if n > 0 && m.host.calls%3 < n && m.host.calls%3 > 0 {
				return errors.New("it does not work")
			}
			return nil
		}
	case "later":
		m.now = m.now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "s")) * time.Second)
	}
}

// spoilAll exempts a VM's taps from checks until Core has seen them.
func (m *machine) spoilAll(vm model.VMID) {
	if v := m.host.vms[vm]; v != nil {
		for _, n := range v.NICs {
			if n.Carrier == model.Yes {
				m.spoil[n.Tap] = true
			}
		}
	}
}

// change makes a change that the guest or the host asks for.
func (m *machine) change(t *rapid.T, vm model.VMID, name string, vf int) {
	var port model.PortPolicy
	port.VLAN = rapid.SampledFrom([]int{0, 0, 10, 20}).Draw(t, "vlan")
	port.NoSpoofCheck, port.Isolated = rapid.Bool().Draw(t, "nospoof"), rapid.Bool().Draw(t, "isolated")
	port.Link = rapid.SampledFrom([]model.LinkMode{model.LinkAuto, model.LinkAuto, model.LinkUp, model.LinkDown}).Draw(t, "link")
	kind := rapid.SampledFrom([]string{"grant", "release", "host"}).Draw(t, "kind")
	run := ""
	if v := m.host.vms[vm]; v != nil {
		run = v.Run
	}
	m.update(func(s *vpf.State) {
		p := s.Find(vm, name)
		if p == nil || vf >= len(p.VFs) {
			return
		}
		switch {
		case kind == "grant" && run != "":
			if g := s.Guests[vm]; g.Run != "" && g.Run != run {
				s.Forget(vm)
			}
			p.VFs[vf].Grant = &model.VFGrant{Owner: "pod", Port: port}
			s.Guests[vm] = vpf.Guest{Run: run}
		case kind == "release":
			p.VFs[vf].Grant = nil
		case kind == "host":
			p.VFs[vf].Port = port
		}
	})
}

// tamper changes a tap or a link as another program might.
func (m *machine) tamper(t *rapid.T, vm model.VMID) {
	v := m.host.vms[vm]
	if v == nil || len(v.NICs) == 0 {
		return
	}
	n := &v.NICs[rapid.IntRange(0, len(v.NICs)-1).Draw(t, "nic")]
	switch p := m.host.ports[n.Tap]; {
	case rapid.Bool().Draw(t, "link"):
		n.Carrier = model.Yes
	case p == nil:
	case rapid.Bool().Draw(t, "detach"):
		p.Detached = model.Yes
	default:
		delete(m.host.ports, n.Tap)
	}
	if n.Carrier == model.Yes {
		m.spoil[n.Tap] = true
	}
}

// Whatever happens in any order, and wherever the program is killed, no link is up without its policy, and in the end everything is as
// wanted and nothing is left of VMs that ended.
func TestCoreInEveryOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			m.step(t)
			if m.host.wrong != "" {
				t.Fatal(m.host.wrong)
			}
		}
		if left := m.settle(); left != "" {
			t.Fatal(left)
		}
		if m.host.wrong != "" {
			t.Fatal(m.host.wrong)
		}
		if len(m.spoil) > 0 {
			m.spoil = map[string]bool{}
			if wrong := m.sane(m.host); wrong != "" {
				t.Fatal("in the end: ", wrong)
			}
		}
	})
}
