package vpf

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/internal/model"
)

// Core decides what to do so that the host becomes what State says. It has no clock, goroutine or randomness.
//
// No function gets a carrier before its policy was read back as wanted, one that loses its policy loses
// its carrier first, and a function that no definition knows has none. What is wanted and what is seen
// decide, not what was done before: a Core that begins anew goes on where another was killed.
type Core struct {
	fails map[key]failure
	busy  map[model.VMID]int // actions under way
	drops map[string]bool    // taps that are being cleared up after

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

// failure is that of an action that failed.
type failure struct {
	err   error
	count int
	next  time.Time // when it may be tried again
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
	return &Core{fails: map[key]failure{}, busy: map[model.VMID]int{}, drops: map[string]bool{}}
}

// Tick says what to do now. The World was read after the last Finish. No VM has actions that are returned again
// before each of them was finished; those that are not begun must be finished too.
func (c *Core) Tick(now time.Time, s *State, w *World) Result {
	c.now, c.state, c.world, c.out = now, s, w, Result{}
	c.index()
	for i := range w.VMs {
		if s.grants(w.VMs[i].ID) > 0 {
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
	c.forgetFailures()
	for i := range c.out.Actions {
		a := &c.out.Actions[i]
		c.busy[a.VM]++
		if a.Kind == DropPort {
			c.drops[a.Tap] = true
		}
	}
	return c.out
}

// Finish says how an action ended.
func (c *Core) Finish(now time.Time, a Action, err error) {
	if c.busy[a.VM]--; c.busy[a.VM] <= 0 {
		delete(c.busy, a.VM)
	}
	delete(c.drops, a.Tap)
	k := a.key()
	if err == nil || errors.Is(err, model.ErrGone) {
		delete(c.fails, k) // what has gone shows in the next World
		return
	}
	n := c.fails[k].count + 1
	c.fails[k] = failure{err: err, count: n, next: now.Add(pause(a.Kind, n))}
}

// pause is how long to wait after so many failures: longer each time, but never long while a carrier should be away.
func pause(k Kind, failures int) time.Duration {
	most := time.Minute
	if k == LinkDown {
		most = 4 * time.Second
	}
	return min(most, time.Second<<min(failures-1, 10))
}

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
	if c.busy[a.VM] > 0 || c.now.Before(c.fails[a.key()].next) {
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
		if vm != last && c.world.FindVM(vm) == nil && c.state.grants(vm) > 0 {
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

// virtual decides about a virtual PF.
func (c *Core) virtual(p *model.VirtualPF) {
	s := Standing{VirtualPFStatus: model.VirtualPFStatus{VirtualPF: *p}}
	vm := c.world.FindVM(p.VM)
	if vm != nil {
		s.VMName = vm.Name // it may have been renamed
	}
	switch {
	case vm == nil:
		s.Why = "its VM does not run"
	case vm.nic(p.Name, -1) == nil:
		s.Why = "its VM was started without it: restart it"
		s.Problems = append(s.Problems, model.Problem{Subject: vm.Name, Text: fmt.Sprintf("it runs without virtual PF %s", p.Name), Remedy: "restart it: virsh shutdown " + vm.Name + "; virsh start " + vm.Name})
	default:
		s.Running, s.Run = true, vm.Run
		if c.void(vm) {
			granted := State{Virtual: []model.VirtualPF{*p}}
			fresh := granted.clone()
			fresh.forget(p.VM)
			p = &fresh.Virtual[0]
		}
	}
	for i := -1; i < len(p.VFs); i++ {
		f, settled := c.function(p, vm, i)
		if f.Stands && p.Model == model.VPFIGB && i >= 0 {
			f.Tap, f.Carrier = s.Functions[0].Tap, s.Functions[0].Carrier
		}
		s.Functions, s.Settled = append(s.Functions, f), append(s.Settled, settled)
	}
	c.out.Virtual = append(c.out.Virtual, s)
}

// function decides about one function.
func (c *Core) function(p *model.VirtualPF, vm *VM, vf int) (f model.FunctionStatus, settled bool) {
	f = model.FunctionStatus{VF: vf, Alias: model.VPFAlias(p.Name, vf), MAC: p.MAC}
	if vf >= 0 {
		f.MAC = p.VFs[vf].MAC
		if g := p.VFs[vf].Grant; g != nil {
			f.Owner = g.Owner
			if !g.MAC.IsZero() {
				f.MAC = g.MAC
			}
		}
	}
	if p.Backend == model.BackendVDPA {
		return c.vdpa(p, vm, vf, f)
	}
	if vm == nil {
		return f, true
	}
	if p.Model == model.VPFIGB && vf >= 0 {
		return c.igb(p, vm, vf, f)
	}
	nic := vm.nic(p.Name, vf)
	if nic == nil {
		f.Why = "its VM was started without it"
		return f, true
	}
	f.Tap, f.Carrier = nic.Tap, nic.Carrier
	up, why := wantsLink(p, vf)
	if twin := c.twin(p, vf, vm, nic); up && twin != "" {
		up, why = nic.Carrier == model.Yes, twin // what runs is not cut off by what another VM did since
		f.Problems = append(f.Problems, model.Problem{Subject: vm.Name, Text: f.Alias + ": " + twin, Remedy: "give one of the two another MAC"})
	}
	f.Why = why
	return f, c.carry(p, vm, vf, nic, up, &f)
}

// carry takes the next step of a function whose link should be up, or down, and says whether none is left.
func (c *Core) carry(p *model.VirtualPF, vm *VM, vf int, nic *model.NIC, up bool, f *model.FunctionStatus) bool {
	have := c.ports[nic.Tap]
	if nic.Tap == "" {
		have = nil
	}
	want := wanted(p, vf, nic.Tap)
	f.Stands = standing(&want, have)
	if have != nil && len(have.Counts) > 1 {
		none := have.Counts[len(have.Counts)-1] // what belongs to no rule came from here too
		f.Drops = have.Counts[0]
		f.Drops.Spoof, f.Drops.VLAN, f.Drops.Rate = f.Drops.Spoof+none.Spoof, f.Drops.VLAN+none.VLAN, f.Drops.Rate+none.Rate
	}
	set := Action{Kind: SetPort, VM: p.VM, Alias: f.Alias, Port: want}
	failed := c.fails[set.key()]
	down := c.mustDown(have, up, failed, f.Stands)
	for _, k := range []Kind{LinkDown, SetPort, LinkUp} {
		if e := c.fails[key{k, p.VM, f.Alias}].err; e != nil {
			a := Action{Kind: k, VM: p.VM, Alias: f.Alias, Port: want, Why: f.Why}
			f.Problems = append(f.Problems, model.Problem{Subject: vm.Name, Text: fmt.Sprintf("cannot %s: %v", a.String(), e), Remedy: "it is tried again; until then it has no carrier"})
		}
	}
	switch {
	case down != "" && nic.Carrier != model.No:
		f.Why = down
		c.do(Action{Kind: LinkDown, VM: p.VM, Alias: f.Alias, Why: down})
		if nic.Tap != "" && (have == nil || have.Detached != model.No) {
			c.do(set) // the link of a VM that migrates stays up until it has come: it is held to the policy at least
		}
	case nic.Tap == "":
		f.Why = "its tap is not known yet"
	case c.drops[nic.Tap]:
		f.Why = "what another VM left at a tap of this name is being cleared up"
	case !f.Stands:
		f.Why = "its policy is being set"
		c.do(set)
	case up && nic.Carrier != model.Yes:
		f.Why = "it is about to get a carrier"
		c.do(Action{Kind: LinkUp, VM: p.VM, Alias: f.Alias, Port: want, Run: vm.Run})
	default:
		return true
	}
	return false
}

// mustDown says why a function may have no carrier now, "" if it may.
func (c *Core) mustDown(have *model.SwitchPortState, up bool, failed failure, stands bool) string {
	switch {
	case !up:
		return "it is not to have one"
	case have == nil:
		return "its tap has no policy"
	case have.Detached != model.No:
		return "somebody took the policy off its tap"
	case !stands && failed.err != nil:
		return "its policy cannot be set"
	}
	return ""
}

// igb is what is known of the VF of an igb: it has a rule at the tap of its PF.
func (c *Core) igb(p *model.VirtualPF, vm *VM, vf int, f model.FunctionStatus) (model.FunctionStatus, bool) {
	var up bool
	up, f.Why = wantsLink(p, vf)
	nic := vm.nic(p.Name, -1)
	if nic == nil {
		return f, true
	}
	want := wanted(p, -1, nic.Tap)
	have := c.ports[nic.Tap]
	f.Stands = standing(&want, have)
	at := 1
	for i := range vf {
		if wants, _ := wantsLink(p, i); wants {
			at++
		}
	}
	if up && f.Stands && at < len(have.Counts) {
		f.Drops = have.Counts[at]
	}
	return f, f.Stands && (!up || nic.Carrier == model.Yes)
}

// twin names somebody who has a MAC of the function on its bridge too, "" if nobody has.
func (c *Core) twin(p *model.VirtualPF, vf int, vm *VM, nic *model.NIC) string {
	for _, m := range functionMACs(p, vf) {
		for _, o := range c.owners[m] {
			same := o.vm == vm && o.nic == nic
			if !same && o.nic.Network == nic.Network {
				return fmt.Sprintf("NIC %s of VM %s has MAC %s too", o.nic.Alias, o.vm.Name, m)
			}
		}
	}
	return ""
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
				Text: fmt.Sprintf("tap %s is held to the policy of a virtual VF, and belongs to none", p.Tap), Remedy: "it is cleared up when the tap goes: see whose it is with `ip -d link show " + p.Tap + "`",
			})
		}
	}
}

// forgetFailures forgets those of what is not there any more.
func (c *Core) forgetFailures() {
	for k := range c.fails {
		vm := c.world.FindVM(k.vm)
		gone := vm == nil || !slices.ContainsFunc(vm.NICs, func(n model.NIC) bool { return n.Alias == k.about })
		switch k.kind {
		case DropPort:
			gone = c.ports[k.about] == nil
		case MakeDevice, DropDevice:
			gone = c.deviceGone(k)
		case Forget:
			gone = c.state.grants(k.vm) == 0
		}
		if gone {
			delete(c.fails, k)
		}
	}
}
