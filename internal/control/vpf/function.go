package vpf

import (
	"fmt"

	"sluice/internal/model"
)

// virtual decides what to do about a virtual PF.
func (c *Core) virtual(p *model.VirtualPF) {
	s := Status{VirtualPFStatus: model.VirtualPFStatus{VirtualPF: *p}}
	vm := c.world.FindVM(p.VM)
	if vm != nil {
		s.VMName = vm.Name // it may have been renamed
	}
	switch {
	case vm == nil && !c.world.Gone(p.VM):
		s.Why = "its VM runs, but libvirt could not describe it: see `sluice doctor`"
	case vm == nil:
		s.Why = "its VM does not run"
	case vm.NIC(p.Name, -1) == nil:
		s.Why = "its VM was started without it: restart it"
		s.Problems = append(s.Problems, model.Problem{
			Subject: vm.Name, Text: fmt.Sprintf("it runs without virtual PF %s", p.Name),
			Remedy: "restart it: virsh shutdown " + vm.Name + "; virsh start " + vm.Name,
		})
	default:
		s.Running, s.Run = true, vm.Run
		if c.restarted(vm) {
			granted := State{Virtual: []model.VirtualPF{*p}}
			fresh := granted.Clone()
			fresh.Forget(p.VM)
			p = &fresh.Virtual[0]
		}
	}
	for i := -1; i < len(p.VFs); i++ {
		f, settled := c.function(p, vm, i)
		if f.InForce && p.Model == model.VPFIGB && i >= 0 {
			f.Tap, f.Carrier = s.Functions[0].Tap, s.Functions[0].Carrier
		}
		s.Functions, s.Settled = append(s.Functions, f), append(s.Settled, settled)
	}
	c.out.Virtual = append(c.out.Virtual, s)
}

// function decides what to do about one function.
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
	nic := vm.NIC(p.Name, vf)
	if nic == nil {
		f.Why = "its VM was started without it"
		return f, true
	}
	f.Tap, f.Carrier = nic.Tap, nic.Carrier
	up, why := WantsLink(p, vf)
	if other := c.sameMAC(p, vf, vm, nic); up && other != "" {
		up, why = nic.Carrier == model.Yes, other // a running function is not cut off because of what another VM did later
		f.Problems = append(f.Problems, model.Problem{Subject: vm.Name, Text: f.Alias + ": " + other, Remedy: "give one of the two another MAC"})
	}
	f.Why = why
	return f, c.carry(p, vm, vf, nic, up, &f)
}

// carry takes the next step towards the wanted link state of a function, and reports whether none is left.
func (c *Core) carry(p *model.VirtualPF, vm *VM, vf int, nic *model.NIC, up bool, f *model.FunctionStatus) bool {
	have := c.ports[nic.Tap]
	if nic.Tap == "" {
		have = nil
	}
	want := Wanted(p, vf, nic.Tap)
	f.InForce = Holds(&want, have)
	if have != nil && len(have.Counts) > 1 {
		none := have.Counts[len(have.Counts)-1] // frames that match no rule came from here too
		f.Drops = have.Counts[0]
		f.Drops.Spoof, f.Drops.VLAN, f.Drops.Rate = f.Drops.Spoof+none.Spoof, f.Drops.VLAN+none.VLAN, f.Drops.Rate+none.Rate
	}
	set := Action{Kind: SetPort, VM: p.VM, Alias: f.Alias, Port: want}
	down := c.mustDown(have, up, c.failed(set.key()) != nil, f.InForce)
	for _, k := range []Kind{LinkDown, SetPort, LinkUp} {
		if e := c.failed(key{k, p.VM, f.Alias}); e != nil {
			a := Action{Kind: k, VM: p.VM, Alias: f.Alias, Port: want, Why: f.Why}
			f.Problems = append(f.Problems, model.Problem{
				Subject: vm.Name, Text: fmt.Sprintf("cannot %s: %v", a.String(), e),
				Remedy: "Sluice tries again; until then it has no carrier",
			})
		}
	}
	switch {
	case down != "" && nic.Carrier != model.No:
		f.Why = down
		c.do(Action{Kind: LinkDown, VM: p.VM, Alias: f.Alias, Why: down})
		if nic.Tap != "" && (have == nil || have.Detached != model.No) {
			c.do(set) // while a VM migrates its link stays up until it has arrived: enforce the policy at least
		}
	case nic.Tap == "":
		f.Why = "its tap is not known yet"
	case c.clearing(nic.Tap):
		f.Why = "leftovers of another VM on a tap of this name are being removed"
	case !f.InForce:
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

// clearing reports whether leftovers on a tap of that name are being removed.
func (c *Core) clearing(tap string) bool {
	o := c.tried.Find(key{kind: DropPort, about: tap})
	return o.Pending(c.now)
}

// mustDown returns why a function must not have a carrier now, "" if it may have one.
func (c *Core) mustDown(have *model.SwitchPortState, up bool, failed, inForce bool) string {
	switch {
	case !up:
		return "it should not have one"
	case have == nil:
		return "its tap has no policy"
	case have.Detached != model.No:
		return "somebody removed the policy from its tap"
	case !inForce && failed:
		return "its policy cannot be set"
	}
	return ""
}

// igb returns the status of the VF of an igb, which has a rule on the tap of its PF.
func (c *Core) igb(p *model.VirtualPF, vm *VM, vf int, f model.FunctionStatus) (model.FunctionStatus, bool) {
	var up bool
	up, f.Why = WantsLink(p, vf)
	nic := vm.NIC(p.Name, -1)
	if nic == nil {
		return f, true
	}
	want := Wanted(p, -1, nic.Tap)
	have := c.ports[nic.Tap]
	f.InForce = Holds(&want, have)
	at := 1
	for i := range vf {
		if wants, _ := WantsLink(p, i); wants {
			at++
		}
	}
	if up && f.InForce && at < len(have.Counts) {
		f.Drops = have.Counts[at]
	}
	return f, f.InForce && (!up || nic.Carrier == model.Yes)
}

// sameMAC describes another NIC on the same bridge that has one of the function's MACs, "" if there is none.
func (c *Core) sameMAC(p *model.VirtualPF, vf int, vm *VM, nic *model.NIC) string {
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
