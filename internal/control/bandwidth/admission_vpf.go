package bandwidth

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/model"
)

// inside reports that it asks for a part of its virtual PF's bandwidth.
func (a *Asked) inside() bool { return a.VirtualPF != "" && !a.Whole }

// insideSLA is what a function asks for inside its virtual PF. Rules apply to the virtual PF as a whole, by the PF's own NIC.
func insideSLA(rules *model.Rules, vm *model.VM, nic *model.NIC) (s model.SLA, wrong []model.Problem) {
	s = nic.Share
	if c := rules.FindClass(s.Class); c != nil {
		s.Priority, s.ClassMin = c.Priority, c.SLA.ClassMin
	}
	if nic.Alias == model.VPFAlias(nic.VirtualPF, -1) {
		return s, nil
	}
	report := func(source string) {
		wrong = append(wrong, model.Problem{
			Subject: vm.Name,
			Text: fmt.Sprintf("an SLA for %s of %s alone has no effect, since it shares what virtual PF %s has (%s)", nic.Alias, vm.Name,
				nic.VirtualPF, source),
			Remedy: fmt.Sprintf("set its share with `sluice vpf set`, and the SLA of all functions together for %s",
				model.VPFAlias(nic.VirtualPF, -1)),
		})
	}
	alone := func(pattern string) bool {
		return pattern == nic.Alias || strings.EqualFold(pattern, nic.MAC.String())
	}
	for i := range rules.VMs {
		if r := &rules.VMs[i]; alone(r.SLANIC) && model.Matches(r.Match, vm.ID, vm.Name) {
			report(r.SLA.Source)
		}
	}
	for i := range vm.SLAs {
		if alone(vm.SLAs[i].NIC) {
			report(vm.SLAs[i].SLA.Source)
		}
	}
	return s, wrong
}

// askedTogether appends what the virtual PFs of a VM ask for; the Asked of the VM's NICs begin at first.
func askedTogether(out []Asked, first int, rules *model.Rules, vm *model.VM) []Asked {
	for k := range vm.NICs {
		name := vm.NICs[k].VirtualPF
		if name == "" || slices.ContainsFunc(vm.NICs[:k], func(n model.NIC) bool { return n.VirtualPF == name }) {
			continue
		}
		nic := vm.FindNIC(model.VPFAlias(name, -1))
		if nic == nil { // it may be about to be undefined
			n := vm.NICs[k]
			n.Alias, n.MAC = model.VPFAlias(name, -1), model.MAC{}
			nic = &n
		}
		a := out[first+k]
		a.ID.NIC, a.Whole = nic.Alias, true
		a.SLA = rules.SLA(vm, nic)
		a.Wrong = wrongRules(rules, vm, nic, a.SLA.Class)
		out = append(out, a)
	}
	return out
}

// admitInside decides which of the guarantees inside each virtual PF fit into what that is promised itself.
func (out *Admission) admitInside(asked []Asked) {
	for w, first := 0, 0; w < len(asked); w++ {
		if asked[w].ID.VM != asked[first].ID.VM {
			first = w
		}
		if !asked[w].Whole {
			continue
		}
		out.keepInside(asked[first:w], &asked[w], false, out.Promised[first:w], &out.Promised[w])
		out.keepInside(asked[first:w], &asked[w], true, out.Promised[first:w], &out.Promised[w])
	}
}

// keepInside sets what functions among the NICs of a VM are promised in bits or in packets. If their virtual PF has no
// guarantee, a guarantee inside it only applies to whatever it gets.
func (out *Admission) keepInside(nics []Asked, whole *Asked, packets bool, promised []model.Rate, have *model.Rate) {
	of := func(r *model.Rate) *uint64 {
		if packets {
			return &r.Packets
		}
		return &r.Bits
	}
	var list []claim
	var names []string
	for i := range nics {
		if a := &nics[i]; a.inside() && a.VirtualPF == whole.VirtualPF && *of(&promised[i]) > 0 {
			list, names = append(list, claim{a, i, *of(&promised[i])}), append(names, a.function())
		}
	}
	kept := make([]uint64, len(list))
	switch {
	case len(list) == 0:
		return
	case *of(have) > 0:
		kept = out.divide(insideSupply(whole, *of(have), packets), list)
	default:
		out.Problems = append(out.Problems, model.Problem{
			Subject: whole.VMName, Info: true,
			Text: fmt.Sprintf("virtual PF %s of %s is guaranteed nothing, so the guarantees inside it, of %s, apply only to what it happens to get",
				whole.VirtualPF, whole.VMName, few(names, ", ")),
			Remedy: "guarantee as much to the VM, or to its NIC " + whole.ID.NIC,
		})
	}
	for k := range list {
		*of(&promised[list[k].place]) = kept[k]
	}
}

func insideSupply(whole *Asked, have uint64, packets bool) supply {
	unit, scale := scaleOf(have)
	if packets {
		unit, scale = "kpps", 1e3
	}
	name := whole.VirtualPF + " of " + whole.VMName
	return supply{
		name: whole.VMName + "/" + whole.VirtualPF, have: have, where: "inside virtual PF " + name + " ", here: "inside it ",
		less: "than it is guaranteed itself", what: "virtual PF", unit: unit, scale: scale, who: (*Asked).function, inside: true,
	}
}

// function is the display name of a function: "vf2", or "the PF itself".
func (a *Asked) function() string {
	if _, vf, ok := model.ParseVPFAlias(a.ID.NIC); ok && vf >= 0 {
		return fmt.Sprintf("vf%d", vf)
	}
	return "the PF itself"
}
