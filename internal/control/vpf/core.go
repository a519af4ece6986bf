package vpf

import (
	"errors"
	"fmt"
	"time"

	"sluice/internal/base/reconcile"
	"sluice/internal/model"
)

// Core decides what to do so that the host matches State. It uses no clock, goroutines or randomness.
//
// No function gets a carrier before its policy has been read back as wanted. A function that loses its policy loses its carrier first,
// and a function that no definition knows gets none. Decisions depend only on the desired and the observed state, not on earlier
// actions, so a new Core continues where a killed one stopped.
type Core struct {
	tried reconcile.Table[key, struct{}] // actions in progress, and actions that failed
	busy  map[model.VMID]int             // number of actions in progress, by VM

	// State of the current Tick.
	now    time.Time
	state  *State
	world  *World
	ports  map[string]*model.SwitchPortState
	owners map[model.MAC][]ownedNIC // NICs of running VMs, by MAC
	out    Result
}

// ownedNIC is a NIC that has a given MAC.
type ownedNIC struct {
	vm  *VM
	nic *model.NIC
}

// Result is the outcome of a Tick.
type Result struct {
	Actions  []Action
	Virtual  []Status // in the order of the State
	Problems []model.Problem
}

// Status is the current status of a virtual PF.
type Status struct {
	model.VirtualPFStatus
	Run     string // of its VM
	Settled []bool // by function: nothing is left to do
}

// NewCore returns a Core without any history.
func NewCore() *Core {
	return &Core{busy: map[model.VMID]int{}}
}

// Tick decides what to do now. The World must have been read after the last Finish. Tick returns no further actions for a VM until all
// its earlier ones are finished; the caller must also finish actions that it never started.
func (c *Core) Tick(now time.Time, s *State, w *World) Result {
	c.now, c.state, c.world, c.out = now, s, w, Result{}
	c.index()
	for i := range w.VMs {
		if s.Grants(w.VMs[i].ID) > 0 {
			c.started(&w.VMs[i])
		}
	}
	c.ended()
	for k := range s.Virtual {
		c.virtual(&s.Virtual[k])
	}
	c.unknown()
	c.leftovers()
	c.unusedDevices()
	c.tried.Prune(now, len(w.Unread) == 0, c.stillThere)
	for i := range c.out.Actions {
		a := &c.out.Actions[i]
		c.busy[a.VM]++
		a.attempt = c.tried.Object(a.key()).Begin(time.Time{})
	}
	return c.out
}

// Finish records the result of an action.
func (c *Core) Finish(now time.Time, a Action, err error) {
	if c.busy[a.VM]--; c.busy[a.VM] <= 0 {
		delete(c.busy, a.VM)
	}
	k := a.key()
	if err == nil || errors.Is(err, model.ErrGone) {
		c.tried.Delete(k) // if the object is gone, the next World shows it
		return
	}
	c.tried.Object(k).End(now, a.attempt, err, backoff(a.Kind))
}

// backoff returns the backoff after failures. It stays short while a carrier still has to be taken away.
func backoff(k Kind) reconcile.Backoff {
	if k == LinkDown {
		return reconcile.Backoff{First: time.Second, Most: 4 * time.Second}
	}
	return reconcile.Backoff{First: time.Second, Most: time.Minute}
}

// failed returns why the last attempt of an action failed, or nil if it did not.
func (c *Core) failed(k key) error { return c.tried.Find(k).Failed.Err }

// index builds the lookup tables of a Tick.
func (c *Core) index() {
	c.ports, c.owners = map[string]*model.SwitchPortState{}, map[model.MAC][]ownedNIC{}
	for i := range c.world.Ports {
		c.ports[c.world.Ports[i].Tap] = &c.world.Ports[i]
	}
	for i := range c.world.VMs {
		vm := &c.world.VMs[i]
		for k := range vm.NICs {
			n := &vm.NICs[k]
			c.owners[n.MAC] = append(c.owners[n.MAC], ownedNIC{vm, n})
		}
	}
}

// do adds an action, unless the VM has actions in progress or it is too early to retry.
func (c *Core) do(a Action) {
	if o := c.tried.Find(a.key()); c.busy[a.VM] > 0 || o.Failed.Resting(c.now) {
		return
	}
	c.out.Actions = append(c.out.Actions, a)
}

// started revokes what was granted to an earlier run of a VM.
func (c *Core) started(vm *VM) {
	if c.restarted(vm) {
		c.do(Action{Kind: Forget, VM: vm.ID, Run: c.state.Guests[vm.ID].Run, Why: "it was restarted"})
	}
}

// ended revokes what was granted to VMs that no longer run.
func (c *Core) ended() {
	var last model.VMID
	for k := range c.state.Virtual {
		vm := c.state.Virtual[k].VM
		if vm != last && c.world.Gone(vm) && c.state.Grants(vm) > 0 {
			c.do(Action{Kind: Forget, VM: vm, Run: c.state.Guests[vm].Run, Why: "it no longer runs"})
		}
		last = vm
	}
}

// restarted reports whether the grants of a guest belong to an earlier run of its VM: they are no longer valid.
func (c *Core) restarted(vm *VM) bool {
	g := c.state.Guests[vm.ID]
	return vm.Run != "" && g.Run != "" && vm.Run != g.Run
}

// unknown takes the carrier away from functions that no definition knows, since no policy says what they may send.
func (c *Core) unknown() {
	for i := range c.world.VMs {
		vm := &c.world.VMs[i]
		names := map[string]bool{}
		for k := range vm.NICs {
			n := &vm.NICs[k]
			if n.VirtualPF == "" || c.defined(vm.ID, n) {
				continue
			}
			if !names[n.VirtualPF] {
				c.out.Problems = append(c.out.Problems, c.unknownPF(vm, n))
			}
			names[n.VirtualPF] = true
			if n.Carrier != model.No && n.Tap != "" { // libvirt cannot change the link of a vDPA device
				c.do(Action{Kind: LinkDown, VM: vm.ID, Alias: n.Alias, Why: "it belongs to no definition"})
			}
		}
	}
}

// unknownPF reports a virtual PF that has unknown functions. If it is not defined at all, defining it exactly as it is in libvirt takes
// it over.
func (c *Core) unknownPF(vm *VM, n *model.NIC) model.Problem {
	if c.state.Find(vm.ID, n.VirtualPF) != nil {
		return model.Problem{
			Subject: vm.Name, Text: fmt.Sprintf("its NIC %s is not a function of virtual PF %s as defined: it gets no carrier", n.Alias,
				n.VirtualPF),
			Remedy: fmt.Sprintf("shut the VM off, sluice vpf undefine %s %s, and define it again", vm.Name, n.VirtualPF),
		}
	}
	vfs := 0
	for k := range vm.NICs {
		if o := &vm.NICs[k]; o.VirtualPF == n.VirtualPF && o.Function > 0 {
			vfs++
		}
	}
	return model.Problem{
		Subject: vm.Name, Text: fmt.Sprintf("its virtual PF %s is not defined here: its functions get no carrier", n.VirtualPF),
		Remedy: fmt.Sprintf("to adopt it, define it with its --model, --backend and --ari: sluice vpf define %s --name %s --vfs %d --network "+
			"%s; to remove it then, shut the VM off and undefine it",
			vm.Name, n.VirtualPF, vfs, n.Network),
	}
}

// defined reports whether the State has this function.
func (c *Core) defined(vm model.VMID, n *model.NIC) bool {
	p := c.state.Find(vm, n.VirtualPF)
	return p != nil && n.Function >= 0 && n.Function <= len(p.VFs) && (p.Model != model.VPFIGB || n.Function == 0)
}

// leftovers cleans up after taps that are gone. A tap that still exists but has no known owner keeps its policy, since removing the
// policy would let all its frames pass.
func (c *Core) leftovers() {
	functions := map[string]bool{}
	for i := range c.world.VMs {
		for _, n := range c.world.VMs[i].NICs {
			functions[n.Tap] = functions[n.Tap] || n.VirtualPF != ""
		}
	}
	for i := range c.world.Ports {
		p := &c.world.Ports[i]
		switch {
		case functions[p.Tap]:
		case p.Detached == model.Yes:
			c.do(Action{Kind: DropPort, Tap: p.Tap, Why: "the tap is gone"})
		default:
			c.out.Problems = append(c.out.Problems, model.Problem{
				Text:   fmt.Sprintf("tap %s is bound to the policy of a virtual VF, but belongs to none", p.Tap),
				Remedy: "the policy is removed when the tap goes; see whose tap it is with `ip -d link show " + p.Tap + "`",
			})
		}
	}
}

// stillThere reports whether the object of an action is still relevant.
func (c *Core) stillThere(k key) bool {
	switch k.kind {
	case DropPort:
		return c.ports[k.about] != nil
	case MakeDevice, DropDevice:
		return !c.deviceGone(k)
	case Forget:
		return c.state.Grants(k.vm) > 0
	}
	vm := c.world.FindVM(k.vm)
	return vm != nil && vm.FindNIC(k.about) != nil
}
