package vpf

import (
	"errors"
	"fmt"
	"time"

	"sluice/internal/base/reconcile"
	"sluice/internal/model"
)

// Core decides what to do so that the host becomes what State says. It has no clock, goroutine or randomness.
//
// No function gets a carrier before its policy was read back as wanted, one that loses its policy loses
// its carrier first, and a function that no definition knows has none. What is wanted and what is seen
// decide, not what was done before: a Core that begins anew goes on where another was killed.
type Core struct {
	tried reconcile.Table[key, struct{}] // actions under way, and those that failed
	busy  map[model.VMID]int             // how many of a VM's are under way

	// of the Tick at hand
	now    time.Time
	state  *State
	world  *World
	ports  map[string]*model.SwitchPortState
	owners map[model.MAC][]mine // who has a MAC on the host: running VMs' NICs
	out    Result
}

// mine is a NIC that has a MAC.
type mine struct {
	vm  *VM
	nic *model.NIC
}

// Result is what a Tick found.
type Result struct {
	Actions  []Action
	Virtual  []Standing // as in the State
	Problems []model.Problem
}

// Standing is a virtual PF as it stands.
type Standing struct {
	model.VirtualPFStatus
	Run     string // of its VM
	Settled []bool // by function: nothing is left to be done
}

// NewCore makes a Core that knows of nothing yet.
func NewCore() *Core {
	return &Core{busy: map[model.VMID]int{}}
}

// Tick says what to do now. The World was read after the last Finish. No VM has actions that are returned again
// before each of them was finished; those that are not begun must be finished too.
func (c *Core) Tick(now time.Time, s *State, w *World) Result {
	c.now, c.state, c.world, c.out = now, s, w, Result{}
	c.index()
	for i := range w.VMs {
		if s.Grants(w.VMs[i].ID) > 0 {
			c.run(&w.VMs[i])
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

// Finish takes the result of an action.
func (c *Core) Finish(now time.Time, a Action, err error) {
	if c.busy[a.VM]--; c.busy[a.VM] <= 0 {
		delete(c.busy, a.VM)
	}
	k := a.key()
	if err == nil || errors.Is(err, model.ErrGone) {
		c.tried.Delete(k) // what has gone shows in the next World
		return
	}
	c.tried.Object(k).End(now, a.attempt, err, rests(a.Kind))
}

// rests is how long an action rests after failures: never long while a carrier should be away.
func rests(k Kind) reconcile.Backoff {
	if k == LinkDown {
		return reconcile.Backoff{First: time.Second, Most: 4 * time.Second}
	}
	return reconcile.Backoff{First: time.Second, Most: time.Minute}
}

// failed is why an action failed when it was tried last, nil if it did not.
func (c *Core) failed(k key) error { return c.tried.Find(k).Failed.Err }

// index prepares what is looked up often.
func (c *Core) index() {
	c.ports, c.owners = map[string]*model.SwitchPortState{}, map[model.MAC][]mine{}
	for i := range c.world.Ports {
		c.ports[c.world.Ports[i].Tap] = &c.world.Ports[i]
	}
	for i := range c.world.VMs {
		vm := &c.world.VMs[i]
		for k := range vm.NICs {
			n := &vm.NICs[k]
			c.owners[n.MAC] = append(c.owners[n.MAC], mine{vm, n})
		}
	}
}

// do adds an action, unless its VM has some under way or it is too early to try again.
func (c *Core) do(a Action) {
	if o := c.tried.Find(a.key()); c.busy[a.VM] > 0 || o.Resting(c.now) {
		return
	}
	c.out.Actions = append(c.out.Actions, a)
}

// run takes back what was granted to an earlier run of a VM.
func (c *Core) run(vm *VM) {
	if g := c.state.Guests[vm.ID]; vm.Run != "" && g.Run != "" && vm.Run != g.Run {
		c.do(Action{Kind: Forget, VM: vm.ID, Run: g.Run, Why: "it was started anew"})
	}
}

// ended takes back what was granted to VMs that run no more.
func (c *Core) ended() {
	var last model.VMID
	for k := range c.state.Virtual {
		vm := c.state.Virtual[k].VM
		if vm != last && c.world.Gone(vm) && c.state.Grants(vm) > 0 {
			c.do(Action{Kind: Forget, VM: vm, Run: c.state.Guests[vm].Run, Why: "it runs no more"})
		}
		last = vm
	}
}

// void says whether what a guest was granted does not count any more: it is about to be taken back.
func (c *Core) void(vm *VM) bool {
	g := c.state.Guests[vm.ID]
	return vm.Run != "" && g.Run != "" && vm.Run != g.Run
}

// unknown takes the carrier from functions that no definition knows: nobody says what they may send.
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
				c.do(Action{Kind: LinkDown, VM: vm.ID, Alias: n.Alias, Why: "no definition knows it"})
			}
		}
	}
}

// unknownPF tells of a virtual PF with such functions. One that is defined anew just as it is in libvirt is taken over.
func (c *Core) unknownPF(vm *VM, n *model.NIC) model.Problem {
	if c.state.Find(vm.ID, n.VirtualPF) != nil {
		return model.Problem{
			Subject: vm.Name, Text: fmt.Sprintf("its NIC %s is no function of virtual PF %s as that is defined: it gets no carrier", n.Alias, n.VirtualPF),
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
		Remedy: fmt.Sprintf("take it over, with the --model, --backend and --ari that it has: sluice vpf define %s --name %s --vfs %d --network %s; then, to take it out, shut the VM off and undefine it",
			vm.Name, n.VirtualPF, vfs, n.Network),
	}
}

// defined says whether a function is one that the State has.
func (c *Core) defined(vm model.VMID, n *model.NIC) bool {
	p := c.state.Find(vm, n.VirtualPF)
	return p != nil && n.Function >= 0 && n.Function <= len(p.VFs) && (p.Model != model.VPFIGB || n.Function == 0)
}

// leftovers clears up after taps that have gone. A tap that is there, and of which nobody knows
// whose it is, keeps its policy: who takes it away opens it.
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
			c.do(Action{Kind: DropPort, Tap: p.Tap, Why: "the tap has gone"})
		default:
			c.out.Problems = append(c.out.Problems, model.Problem{
				Text:   fmt.Sprintf("tap %s is held to the policy of a virtual VF, and belongs to none", p.Tap),
				Remedy: "it is cleared up when the tap goes: see whose it is with `ip -d link show " + p.Tap + "`",
			})
		}
	}
}

// stillThere says whether what an action was about is still of interest.
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
